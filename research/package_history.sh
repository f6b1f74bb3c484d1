#!/usr/bin/env bash
# A repository of the first-parent commits of a package that change some paths, each with the same benchmark file beside it, for
# `ratchet history fill` and research/static_agreement.py: package_history.sh CLONE FOLDER SUBTREE BENCH PYTHON_PATH SINCE PATH...
#   package_history.sh Liger-Kernel liger src bench/liger.py src 2025-06-25 src/liger_kernel
# CLONE is a clone of the package, and FOLDER needs it as long as it is used. Of each commit SUBTREE alone is kept; its subject
# begins with the hash that the package knows it by. To take it elsewhere: git bundle create x.bundle HEAD main.
set -euo pipefail
clone=$(realpath "$1") folder=$2 subtree=$3 bench=$(realpath "$4") python_path=$5 since=$6
shift 6
objects=$(realpath "$(git -C "$clone" rev-parse --git-path objects | sed "s|^[^/]|$clone/&|")")
rm -rf "$folder"
git init -q -b main "$folder"
cd "$folder"
echo "$objects" >.git/objects/info/alternates
settings=$(printf '[project]\nname = "kernels"\nversion = "0"\n\n[tool.ratchet]\npython_path = ["%s"]\n' "$python_path" | git hash-object -w --stdin)
ignored=$(printf 'results/\n__pycache__/\n' | git hash-object -w --stdin)
benchmarks=$(printf '100644 blob %s\t%s\n' "$(git hash-object -w "$bench")" "$(basename "$bench")" | git mktree)
export GIT_AUTHOR_NAME=package GIT_AUTHOR_EMAIL=package@localhost GIT_COMMITTER_NAME=package GIT_COMMITTER_EMAIL=package@localhost
parent=()
mapfile -t commits < <(git -C "$clone" log --first-parent --reverse --since="$since" --format=%H -- "$@")
for commit in "$(git -C "$clone" rev-parse "${commits[0]}^")" "${commits[@]}"; do
    code=$(git -C "$clone" rev-parse "$commit:$subtree")
    tree=$(printf '100644 blob %s\t.gitignore\n040000 tree %s\tbench\n100644 blob %s\tpyproject.toml\n040000 tree %s\t%s\n' \
        "$ignored" "$benchmarks" "$settings" "$code" "$subtree" | git mktree --missing)
    date=$(git -C "$clone" log -1 --format=%cI "$commit")
    subject=$(git -C "$clone" log -1 --format='%h %s' "$commit")
    parent=(-p "$(GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date git commit-tree "$tree" "${parent[@]}" -m "$subject")")
done
git reset -q --hard "${parent[1]}"
echo "$(git rev-list --count main) commits in $folder"
