# ruff: noqa: A004  these names are Triton's
class JITFunction:
    def __init__(self, fn):
        self.fn, self.hash = fn, None
        self.kept = fn.__code__  # read where a kernel is defined, as Triton does
        self.compiled = {}

    def __getitem__(self, grid):
        from triton.backends.compiler import GPUTarget
        from triton.compiler.compiler import ASTSource, compile

        def launch(*arguments, num_warps=4, **constants):
            signature = dict.fromkeys(self.fn.__code__.co_varnames[: len(arguments)], "*fp32")
            source = ASTSource(self, signature, {(len(arguments) + i,): value for i, value in enumerate(constants.values())}, {})
            key = str((signature, constants, num_warps))
            self.compiled[key] = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": num_warps})

        return launch

    @property
    def cache_key(self):
        return repr(self.codes())

    def codes(self):
        """Compile this and what it calls."""
        self.hash = "compiled"
        found = [self.fn.__code__.co_code, repr(self.fn.__code__.co_consts[1:]).encode()]
        for name in self.fn.__code__.co_names:
            if isinstance(inner := self.fn.__globals__[name], JITFunction):
                found += inner.codes()
        return found


def jit(fn):
    return JITFunction(fn)
