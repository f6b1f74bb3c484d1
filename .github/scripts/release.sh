#!/usr/bin/env bash
# Builds the wheel and the source of the tag in TAG into dist/, and refuses them where they are not whole.
set -euo pipefail

version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' ratchet/__init__.py)
if [ "$TAG" != "v$version" ]; then
  echo "The tag is $TAG, and ratchet/__init__.py says $version: push tag v$version, or change the version." >&2
  exit 1
fi
if ! grep --quiet "^## $version\b" CHANGELOG.md; then
  echo "CHANGELOG.md has no section \"## $version\": rename \"Unreleased\" to it, with the date." >&2
  exit 1
fi
rm -rf dist
uv build --quiet --out-dir dist

# What was built works without the checkout.
apart=$(mktemp -d)
trap 'rm -rf "$apart"' EXIT
uv venv --quiet "$apart/venv"
uv pip install --quiet --python "$apart/venv/bin/python" dist/*.whl
cd "$apart"
test "$(venv/bin/ratchet --version)" = "ratchet, version $version"
venv/bin/ratchet doctor settings --schema run > run.json
