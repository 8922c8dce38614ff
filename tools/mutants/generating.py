"""Every mutant of a module: cosmic-ray's operators, and statements left out."""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Of an operator's eleven replacements the opposite one: the others are killed by the same tests.
OPERATORS = (
    *(
        f"ReplaceBinaryOperator_{pair}"
        for pair in (
            *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "Pow_Mul"),
            *("RShift_LShift", "LShift_RShift", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr"),
        )
    ),
    *(
        f"ReplaceComparisonOperator_{pair}"
        for pair in (
            *("Eq_NotEq", "Eq_LtE", "Eq_GtE", "NotEq_Eq", "NotEq_Lt", "NotEq_Gt", "Is_IsNot"),
            *("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "IsNot_Is"),
        )
    ),
    *("ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_Not", "AddNot"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer"),
    *("NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop"),
)


class Mutant:
    """A module with one change; known by what the module then says."""

    def __init__(self, spec: Any, before: str, after: str) -> None:
        self.spec, self.code = spec, after
        self.module = str(spec.module_path)
        self.id = hashlib.sha256(f"{self.module}\0{after}".encode()).hexdigest()[:32]
        self._before = before

    @property
    def description(self) -> str:
        name = self.spec.operator_name.split("/")[1]
        return f"{self.module}:{self.spec.start_pos[0]} {name}"

    @property
    def diff(self) -> str:
        lines = difflib.unified_diff(
            self._before.splitlines(), self.code.splitlines(), n=0, lineterm=""
        )
        return "\n".join(line for line in lines if line[:3] not in ("---", "+++", "@@ "))


def mutants_of(root: Path, module: str, kept_in: Path) -> list[Mutant]:
    """Every mutant of a module that is Python, and not the same program as another or as before.

    To parse a module for each takes minutes in all, so they are kept in a folder.
    """
    from cosmic_ray.work_item import MutationSpec

    before = (root / module).read_text()
    parts = (Path(__file__).read_bytes(), module.encode(), before.encode())
    file = kept_in / f"{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}.json"
    if not file.exists():
        kept_in.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(list(_generated(before))))
    return [
        Mutant(MutationSpec(module, name, occurrence, tuple(start), tuple(stop)), before, after)
        for name, occurrence, start, stop, after in json.loads(file.read_text())
    ]


def _generated(before: str) -> Iterator[tuple[str, int, Any, Any, str]]:
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code

    seen = {_program(before)}
    for name, operator in _operators().items():
        places = [
            place
            for node in ast_nodes(get_ast(before))
            for place in operator.mutation_positions(node)
        ]
        for occurrence, (start, stop) in enumerate(places):
            after = mutate_code(before, operator, occurrence)
            try:
                program = _program(after or before)
            except SyntaxError:
                continue
            if program not in seen:
                seen.add(program)
                yield name, occurrence, start, stop, str(after)


def _program(code: str) -> str:
    """What is executed, as far as a test can notice it."""
    return ast.dump(_Executed().visit(ast.parse(code)))


class _Executed(ast.NodeTransformer):
    """Leaves out what is no part of a program's meaning, so that no mutant differs by it alone.

    - Annotations are never evaluated, and ``@final`` is one; nor is what only a type checker sees.
    - A cache gives what would be computed.
    - ``*`` and ``/`` in a signature say how arguments may be given: those who give them do.
    - ``strict=True`` of a zip, where the lengths are equal: anything else is an error already.
    - Numpy takes every negative number in a reshape for −1.
    - What an error says, in an f-string of its ``raise``.
    - Strings are compared for equality: their order means nothing.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        given = node.args
        given.args = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        given.posonlyargs, given.kwonlyargs = [], []
        given.defaults = [*given.defaults, *(value for value in given.kw_defaults if value)]
        given.kw_defaults = []
        return self._undecorated(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._undecorated(node)

    def _undecorated(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        unseen = ("final", "lru_cache", "cache")
        decorators = node.decorator_list
        node.decorator_list = [d for d in decorators if ast.unparse(d).split("(")[0] not in unseen]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.module == "__future__":
            node.names = []
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        return ast.Pass() if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = ast.unparse(node.func)
        if called == "zip":
            node.keywords = [word for word in node.keywords if word.arg != "strict"]
        if called.endswith("reshape"):
            node.args = [
                ast.Constant(-1) if ast.unparse(size) in ("-1", "-2") else size
                for size in node.args
            ]
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        for inner in ast.walk(node):
            if isinstance(inner, ast.JoinedStr):
                inner.values = []
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = (node.left, *node.comparators)
        if any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides):
            node.ops = [ast.Eq() if isinstance(op, ast.LtE | ast.GtE) else op for op in node.ops]
            node.ops = [ast.NotEq() if isinstance(op, ast.Lt | ast.Gt) else op for op in node.ops]
        return self.generic_visit(node)


def _operators() -> dict[str, Any]:
    from cosmic_ray import plugins
    from cosmic_ray.operators.operator import Operator
    from parso.python.tree import Keyword, PythonNode

    class LeaveOutStatement(Operator):  # type: ignore[misc]
        """A call whose value is not used, a refusal, or a sum that is added to: left out."""

        def mutation_positions(self, node: Any) -> Iterator[Any]:
            if isinstance(node, PythonNode) and node.type == "simple_stmt":
                statement = node.children[0]
                added = statement.type == "expr_stmt" and statement.children[1].type != "operator"
                if statement.type in ("atom_expr", "raise_stmt") or added:
                    yield statement.start_pos, statement.end_pos

        def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002
            leaf = node.children[0].get_first_leaf()
            node.children[0] = Keyword("pass", leaf.start_pos, leaf.prefix)
            return node

        @classmethod
        def examples(cls) -> tuple[Any, ...]:
            return ()

    class Own(dict[str, Any]):
        pass

    plugins.OPERATOR_PROVIDERS["fedsel"] = Own(LeaveOutStatement=LeaveOutStatement)
    names = [*(f"core/{name}" for name in OPERATORS), "fedsel/LeaveOutStatement"]
    return {name: plugins.get_operator(name)() for name in names}


def changed_lines(before: str, after: str) -> range:
    """The lines of the statement that differs; of one with a body, its head.

    Whoever executes any of them may notice a change of the statement, and nobody else.
    """
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    line = next(number for number, (old, new) in enumerate(pairs, 1) if old != new)
    heads = []
    for node in ast.walk(ast.parse(before)):
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            beginnings = [*getattr(node, "decorator_list", []), getattr(node, "pattern", node)]
            first = min(beginning.lineno for beginning in beginnings)
            body = getattr(node, "body", None)
            last = max(first, body[0].lineno - 1) if body else int(node.end_lineno or first)
            if first <= line <= last:
                heads.append(range(first, last + 1))
    return min(heads, key=len, default=range(line, line + 1))
