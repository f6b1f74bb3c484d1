"""Find the statements of a tree's modules that a case can depend on, as a linker finds what a program needs.

`HostCode` uses `LoadedProgram`. It reads the sources of loaded modules, and looks at the modules without running their code.

Every statement that does more than to bind names counts (`plain`). One that only binds counts if something that counts mentions
a name which it binds (`mentions`). So whatever is left out could be another, or missing, and everything else would do the same.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType

from ratchet.measure.host_code.acts import WATCHED
from ratchet.measure.host_code.mentions import MentionReader, Mentions, Syntax, absolute
from ratchet.measure.host_code.plain import Plain

_OF_IMPORT = frozenset(
    {"__builtins__", "__cached__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__"}
)
"""Names that importing a module binds in it."""
Name = tuple[str, str]
"""Module and name in it."""


class Wide(Exception):
    """Everything in the tree counts; the message says why."""


@dataclass
class Statement:
    """A statement at the top of a module."""

    node: ast.stmt
    syntax: Syntax
    digest: str
    """Of its text without comments, docstrings and positions."""
    names: frozenset[str]
    """The names that it binds."""
    plain: bool = True
    mentions: Mentions | None = None
    """Filled in when it is first asked for, since it depends on the values that names have by then."""

    @property
    def lines(self) -> range:
        """The lines of its file that it takes, those of decorators included."""
        first = min(one.lineno for one in (self.node, *getattr(self.node, "decorator_list", ())))
        return range(first, (self.node.end_lineno or first) + 1)


@dataclass
class Source:
    """The statements of a loaded module."""

    module: ModuleType
    path: Path
    statements: list[Statement]
    by_name: dict[str, list[int]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    """Modules from which it imports every name."""
    docstrings: str = ""
    """Digest of all of them."""


class LoadedProgram:
    """The modules of a tree in this process. ``content`` gives the digest that each file had before anything was imported.

    ``by_libraries`` has the modules that code of the environment imported, by names that may stand in a file or in metadata.
    """

    def __init__(self, tree: Path, content: Mapping[str, str], by_libraries: AbstractSet[str] = frozenset()) -> None:
        self._tree = tree
        self._before = frozenset(sys.modules)
        self._content = content
        self._sources: dict[str, Source] = {}
        self._own: dict[int, str] = {}
        self._seen = set(self._before)
        self._unread = ""
        self._native: list[Path] = []
        self.by_libraries = by_libraries

    def update(self) -> None:
        """Read the modules that were loaded since the last call."""
        fresh = {name: module for name, module in list(sys.modules.items()) if name not in self._seen}
        own: list[tuple[str, ModuleType, Path]] = []
        for name, module in fresh.items():
            self._seen.add(name)
            if not isinstance(module, ModuleType | None) and self._is_of_tree(type(module)):
                self._unread = f"{name} is no module"
            if isinstance(module, ModuleType) and (place := _place(module)) and place.is_relative_to(self._tree):
                self._own[id(module)] = name
                if place.suffix == ".so":
                    self._native.append(place)
                elif place.is_file():
                    own.append((name, module, place))
        read = {name: self._read(module, path) for name, module, path in own}
        self._sources.update(read)
        for source in read.values():
            plain = Plain(source.module, self._definition, lambda each: each in self._sources)
            for statement in source.statements:
                statement.plain = plain.statement(statement.node)

    def _is_of_tree(self, kind: type) -> bool:
        """Return whether a class is the tree's own. What a library puts among the modules is the same on both sides."""
        module = sys.modules.get(kind.__module__)
        place = _place(module) if isinstance(module, ModuleType) else None
        return module is None or (place is not None and place.is_relative_to(self._tree))

    def closure(
        self, roots: Iterable[Name], seen: Collection[str] = WATCHED, imported: AbstractSet[str] | None = None
    ) -> Closure:
        """Return the statements that count, from these names. Raises Wide.

        ``seen`` are the watched acts (`acts.ActWatch`), ``imported`` the modules that the tree got from
        `importlib.import_module`; None where nobody watched.
        """
        if self._unread:
            raise Wide(self._unread)
        for path in self._native:
            data = path.read_bytes()
            if b"__pyx_" in data or any(f"{name}\0".encode() in data for name in self._sources):
                raise Wide(f"{path.name} may use any module of the tree")
        return Closure(self, roots, seen, imported)

    def uncounted(self, ran: Collection[tuple[str, int, str]], closure: Closure) -> str:
        """Return a function that ran (file, line, name) and is in no statement that counts; no text if there is none."""
        by_path = {str(source.path): name for name, source in self._sources.items()}
        for file, line, name in sorted(ran):
            if not Path(file).is_relative_to(self._tree):
                continue
            shown = f"{name} in {Path(file).relative_to(self._tree)}:{line}"
            if (module := by_path.get(file)) is None:
                return shown
            inside = [at for at, each in enumerate(self._sources[module].statements) if line in each.lines]
            if not inside or not all((module, at) in closure.found for at in inside):
                return shown
        return ""

    def unlisted(self, executed: AbstractSet[str], unloaded: AbstractSet[str]) -> str:
        """Return a file of the tree that was run as a module and is neither loaded nor ``unloaded``; no text if there is none."""
        loaded = {str(source.path) for source in self._sources.values()}
        return min({self.relative(Path(file)) for file in executed - loaded} - unloaded, default="")

    def source(self, module: str) -> Source | None:
        return self._sources.get(module)

    @property
    def sources(self) -> Mapping[str, Source]:
        return self._sources

    def own(self, found: object) -> str:
        """Return the name of a module of the tree; no name for anything else."""
        return self._own.get(id(found), "") if isinstance(found, ModuleType) else ""

    def order(self, closure: Closure) -> list[str]:
        """Return the modules whose import can have mattered, in the order in which it began."""
        counted = {module for module, _ in closure.found}
        return [name for name in sys.modules if name in counted or self._is_fresh_library(name)]

    def unloaded(self, closure: Closure, bench: str) -> set[str]:
        """Return the files of the tree that may have run although no module of theirs is there: their import failed.

        These are files of benchmarks, and what the top of any module or a statement that counts imports.
        """
        loaded = {str(source.path) for source in self._sources.values()}
        names = {
            name
            for module, source in self._sources.items()
            for at, one in enumerate(source.statements)
            for each in (one.syntax.imports if (module, at) in closure.found else one.syntax.top_imports)
            for name in _imported(source.module, each)
            if not isinstance(sys.modules.get(name), ModuleType)
        }
        roots = [self._tree, *(Path(each) for each in sys.path if Path(each).is_relative_to(self._tree))]
        files = {root / f"{name.replace('.', '/')}{end}" for root in roots for name in names for end in (".py", "/__init__.py")}
        files |= set((self._tree / bench).glob("*.py"))
        return {self.relative(path) for path in files if path.is_file() and str(path.resolve()) not in loaded}

    def sequence(self, source: Source, counted: Collection[int]) -> list[str]:
        """Return what runs at the top of a module in an order that matters: statements, and imports that run such statements."""
        found: list[str] = []
        for at, statement in enumerate(source.statements):
            if at in counted and not _is_settled(source, statement):
                found.append(statement.digest)  # not its names alone: `a = 0` and `a += 1` both bind a
            found += [
                ast.dump(node)
                for node in statement.syntax.top_imports
                if any(self._runs(name, set()) for name in _imported(source.module, node))
            ]
        return found

    def _runs(self, name: str, asked: set[str]) -> bool:
        """Return whether importing a module, or what it imports, may do more than to bind names."""
        source = self._sources.get(name)
        if source is None or name in asked:
            return source is None and self._is_fresh_library(name)
        asked.add(name)
        if not all(statement.plain for statement in source.statements):
            return True
        nodes = (node for statement in source.statements for node in statement.syntax.top_imports)
        return any(self._runs(each, asked) for node in nodes for each in _imported(source.module, node))

    def _is_fresh_library(self, name: str) -> bool:
        """Return whether a module of the environment was first imported by the tree."""
        own = id(sys.modules.get(name)) in self._own
        return (
            name in sys.modules and name not in self._before and not own and name.partition(".")[0] not in sys.stdlib_module_names
        )

    def _read(self, module: ModuleType, path: Path) -> Source:
        text = path.read_bytes()
        relative = str(path.relative_to(self._tree))
        if path.suffix != ".py" or self._content.get(relative) != hashlib.sha256(text).hexdigest():
            self._unread = f"{relative} was not there before the imports"
            return Source(module, path, [])
        parsed = ast.parse(text)
        docstrings = _take_docstrings(parsed)
        body = [node for node in parsed.body if not isinstance(node, ast.Pass) and not _is_main(node)]
        statements = [Statement(node, Syntax(node), _digest(node), frozenset(bound(node))) for node in body]
        source = Source(module, path, statements, docstrings=_joined(map(repr, docstrings)))
        for at, statement in enumerate(source.statements):
            for name in statement.names:
                source.by_name.setdefault(name, []).append(at)
            node = statement.node
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                source.stars.append(absolute(module, node))
        return source

    def _definition(self, function: FunctionType) -> ast.FunctionDef | None:
        """Return the source of a function at the top of a module of the tree."""
        source = self._sources.get(function.__module__)
        if source is None:
            return None
        line = function.__code__.co_firstlineno
        nodes = (source.statements[at].node for at in source.by_name.get(function.__name__, ()))
        return next((node for node in nodes if isinstance(node, ast.FunctionDef) and _first_line(node) == line), None)

    def mentions(self, source: Source, statement: Statement) -> Mentions:
        """Return what a statement may read."""
        if statement.mentions is None:
            statement.mentions = MentionReader(source.module, source.by_name, self.own, statement.node, statement.syntax).found
        return statement.mentions

    def relative(self, path: Path) -> str:
        return str(path.relative_to(self._tree))


class Closure:
    """All statements that count for some names."""

    def __init__(
        self, program: LoadedProgram, roots: Iterable[Name], seen: Collection[str], imported: AbstractSet[str] | None
    ) -> None:
        self._program = program
        self._seen = seen
        self._imported = imported
        self.found: dict[tuple[str, int], Statement] = {}
        self._asked: set[Name] = set()
        self._left: list[Name] = list(roots)
        self.mentioned = Mentions()
        """All that they may read, without the names that are followed one by one."""
        for module, source in program.sources.items():
            for at, statement in enumerate(source.statements):
                if not statement.plain:
                    self._add(module, source, at)
        while self._left:
            while self._left:
                self._name(self._left.pop())
            self._left = [each for each in self._through_modules() if each not in self._asked]

    def digests(self) -> dict[str, str]:
        """Return ``file: names`` → digest. Statements that do more than bind names are one entry of their file."""
        parts: dict[str, list[str]] = {}
        for module, source in self._program.sources.items():
            counted = [at for at in range(len(source.statements)) if (module, at) in self.found]
            file = self._program.relative(source.path)
            for at in counted:
                statement = source.statements[at]
                names = ", ".join(sorted(statement.names)[:3]) if statement.plain else "top level"
                parts.setdefault(f"{file}: {names}", []).append(statement.digest)
            if counted:
                parts[f"{file}: order of statements"] = [_joined(self._program.sequence(source, counted))]
            if self.mentioned.docstrings:
                parts[f"{file}: docstrings"] = [source.docstrings]
        return {label: _joined(digests) for label, digests in parts.items()}

    def _add(self, module: str, source: Source, at: int) -> None:
        if (module, at) in self.found:
            return
        statement = self.found[module, at] = source.statements[at]
        mentions, everything = self._program.mentions(source, statement), self.mentioned
        if reason := next((each for each in mentions.wide if each not in WATCHED or each in self._seen), None):
            raise Wide(f"{reason} ({self._program.relative(source.path)}:{statement.node.lineno})")
        self._left += [(module, name) for name in mentions.names]
        self._left += mentions.members
        everything.attributes |= mentions.attributes
        everything.escapes |= mentions.escapes
        everything.handed |= mentions.handed
        everything.escapes |= mentions.named if self._imported is None else set()
        everything.words |= mentions.words
        everything.python_files |= mentions.python_files
        everything.every_module |= mentions.every_module or (mentions.computed_imports and self._imported is None)
        everything.computed_imports |= mentions.computed_imports
        everything.enumerates |= mentions.enumerates
        everything.docstrings |= mentions.docstrings
        everything.source |= mentions.source
        everything.listed |= mentions.listed

    def _name(self, name: Name) -> None:
        if name in self._asked:
            return
        self._asked.add(name)
        module, member = name
        if (source := self._program.source(module)) is None:
            return
        for at in source.by_name.get(member, ()):
            self._add(module, source, at)
            self._left += self._program.mentions(source, source.statements[at]).imports.get(member, ())
        if member in _OF_IMPORT:
            return
        self._left += [(each, name) for each in source.stars for name in (member, "__all__")]  # these may hide its own names
        if member in source.by_name:
            return
        self._left += [(module, hook) for hook in ("__getattr__", "__dir__") if hook in source.by_name]
        if type(source.module) is not ModuleType and member not in vars(source.module):
            raise Wide(f"{module} is no plain module")

    def _through_modules(self) -> Iterable[Name]:
        """Yield names that may be read through modules that are used as values."""
        everything = self.mentioned
        # No statement of the tree says what a library took from the modules that it imported.
        everything.handed |= self._program.by_libraries & self._program.sources.keys()
        if everything.computed_imports and self._imported:  # what is done with such a module no name shows
            everything.handed |= self._imported & self._program.sources.keys()
        everything.escapes |= everything.handed
        modules = set(self._program.sources if everything.every_module else everything.escapes)
        left = list(modules)
        while left:  # a module leads to those among its names
            source = self._program.source(left.pop())
            inner = {own for value in vars(source.module).values() if (own := self._program.own(value))} if source else set()
            left += inner - modules
            modules |= inner
        for module in sorted(modules):
            source = self._program.source(module)
            if source is not None:
                is_whole = everything.enumerates or module in everything.handed
                names = source.by_name if is_whole else everything.attributes & source.by_name.keys()
                yield from ((module, name) for name in names)


def bound(node: ast.AST) -> Iterable[str]:
    """Yield the names that a statement binds, without those within functions and classes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    for child in ast.iter_child_nodes(node):
        yield from bound(child)


def _place(module: ModuleType) -> Path | None:
    """Return the file of a module, or the folder of a package without one."""
    names = vars(module)
    file = names.get("__file__")
    if not isinstance(file, str):
        file = next((each for each in list(names.get("__path__") or ()) if isinstance(each, str)), None)
    return Path(file).resolve() if file else None


def _take_docstrings(node: ast.AST) -> list[str]:
    """Take all docstrings out of a module, and return them."""
    taken = []
    if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body[:1] = [] if len(node.body) > 1 else [ast.copy_location(ast.Pass(), first)]
            taken.append(first.value.value)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):  # no expression has one
            taken += _take_docstrings(child)
    return taken


def _imported(module: ModuleType, node: ast.Import | ast.ImportFrom) -> Iterable[str]:
    """Yield the full names of modules that an import statement may load."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        base = absolute(module, node)
        names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
    for name in names:
        parts = name.split(".")
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _is_settled(source: Source, statement: Statement) -> bool:
    """Return whether a statement binds the same wherever it stands: a function, a constant, or an import."""
    node = statement.node
    if source.stars or not statement.plain or any(len(source.by_name[name]) > 1 for name in statement.names):
        return False
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return not (node.decorator_list or node.args.defaults or node.args.kw_defaults)
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    return isinstance(value, ast.Constant) or isinstance(node, ast.Import | ast.ImportFrom)


def _is_main(node: ast.stmt) -> bool:
    """Return whether a statement runs only where its file is the program."""
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _digest(node: ast.stmt) -> str:
    return hashlib.sha256(ast.dump(node).encode("utf-8", "surrogatepass")).hexdigest()


def _joined(digests: Iterable[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()
