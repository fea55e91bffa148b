"""What counts as a read of args, and how far args are followed."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError
from runner.contract.flow import Read, Scan, scan
from runner.contract.source import read_source

NAMES = ("args",)


def scanned(tmp_path: Path, **modules: str) -> Scan:
    """The scan of a package with these modules."""
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    return scan(read_source(tmp_path), NAMES)


def names(found: Scan) -> set[str]:
    """The fields that were read."""
    return {read.field for read in found.reads}


def one(found: Scan) -> Read:
    """The only read."""
    assert len(found.reads) == 1, found.reads
    return found.reads[0]


def test_an_attribute_is_required_and_comes_with_its_place(tmp_path: Path) -> None:
    read = one(scanned(tmp_path, server="def start(args):\n    return args.port\n"))
    assert (read.field, read.required, read.default, str(read.place)) == ("port", True, None, "server.py:2")


@pytest.mark.parametrize(
    ("call", "required", "default"),
    [
        pytest.param('getattr(args, "port")', True, None, id="getattr without default fails when it is not there"),
        pytest.param('getattr(args, "port", None)', False, "None", id="None is a default"),
        pytest.param('getattr(args, "port", 600.0)', False, "600.0", id="a default is kept as it is written"),
        pytest.param('hasattr(args, "port")', False, None, id="hasattr looks without needing it"),
    ],
)
def test_reads_by_name_tell_optional_from_required(
    tmp_path: Path, call: str, required: bool, default: str | None
) -> None:
    read = one(scanned(tmp_path, server=f"def start(args):\n    return {call}\n"))
    assert (read.field, read.required, read.default) == ("port", required, default)


FOLLOWED = {
    "a second name": """
        def start(args):
            a = b = args
            return b.port
        """,
    "a name with a type": """
        def start(args):
            a: object = args
            return a.port
        """,
    "a name bound in an expression": """
        def start(args):
            if (a := args) is not None:
                return a.port
        """,
    "names bound in pairs": """
        def start(args, url):
            a, u = args, url
            return a.port
        """,
    "a fallback": """
        def start(args, other):
            return (args or other).port
        """,
    "an inner function": """
        def start(args):
            def inner():
                return args.port
            return inner
        """,
    "a lambda": """
        def start(args):
            return lambda: args.port
        """,
    "an attribute of the instance": """
        class Server:
            def __init__(self, args):
                self.given = args
            def run(self):
                return self.given.port
        """,
    "an attribute that a base class keeps": """
        class Base:
            def __init__(self, args):
                self.given = args
        class Server(Base):
            def run(self):
                return self.given.port
        """,
    "an attribute of another object": """
        class Server:
            def __init__(self, args):
                self.given = args
        def run(server):
            return server.given.port
        """,
    "an attribute set from outside": """
        def start(app, args):
            app.state.given = args
        def handler(request):
            return request.app.state.given.port
        """,
    "a parameter with another name": """
        def start(args):
            run(1, args)
        def run(count, config):
            return config.port
        """,
    "a parameter by keyword": """
        def start(args):
            run(config=args)
        def run(*, config):
            return config.port
        """,
    "a constructor": """
        def start(args):
            Server(args)
        class Server:
            def __init__(self, config):
                self.config = config
            def run(self):
                return self.config.port
        """,
    "a constructor through super": """
        class Base:
            def __init__(self, config):
                self.config = config
            def run(self):
                return self.config.port
        class Server(Base):
            def __init__(self, args):
                super().__init__(args)
        """,
    "a generated constructor": """
        from dataclasses import dataclass
        @dataclass
        class Context:
            url: str
            config: object
        def start(args):
            run(Context("", args))
        def run(context):
            return context.config.port
        """,
    "a class method": """
        class Server:
            @classmethod
            def make(cls, config):
                return cls(config)
            def __init__(self, config):
                self.port = config.port
        def start(args):
            return Server.make(args)
        """,
    "a static method": """
        class Server:
            @staticmethod
            def port(config):
                return config.port
        def start(args):
            return Server.port(args)
        """,
    "a method of the instance": """
        class Server:
            def start(self, args):
                self.run(args)
            def run(self, config):
                return config.port
        """,
    "a method of an object of unknown type": """
        class Registry:
            def fill(self, config):
                return config.port
        def start(registry, args):
            registry.fill(args)
        """,
    "a result": """
        def checked(args):
            return args
        def start(raw):
            return checked(raw).port
        """,
    "a property": """
        class Server:
            def __init__(self, args):
                self._given = args
            @property
            def config(self):
                return self._given
            def run(self):
                return self.config.port
        """,
    "a copy": """
        import copy
        def start(args):
            return copy.deepcopy(args).port
        """,
    "a partial": """
        import functools
        def start(args):
            return functools.partial(run, args)
        def run(config):
            return config.port
        """,
    "a process": """
        import multiprocessing
        def start(args, url):
            multiprocessing.Process(target=run, args=(args, url)).start()
        def run(config, url):
            return config.port
        """,
    "a default of a parameter": """
        def start(args):
            def inner(config=args):
                return config.port
            return inner
        """,
    "an addition in place": """
        def start(args):
            args.port += 1
        """,
    "coroutines": """
        async def start(args):
            await run(args)
        async def run(config):
            return config.port
        """,
}


@pytest.mark.parametrize("text", FOLLOWED.values(), ids=FOLLOWED)
def test_args_are_followed_through(tmp_path: Path, text: str) -> None:
    found = scanned(tmp_path, server=text)
    assert names(found) == {"port"}
    assert found.unreadable == ()


def test_args_are_followed_into_another_module_under_another_name(tmp_path: Path) -> None:
    found = scanned(
        tmp_path,
        server="from pkg.routes import setup as prepare\ndef start(args):\n    prepare(app, args)\n",
        routes="def setup(app, config):\n    return config.port\n",
    )
    assert [str(read.place) for read in found.reads] == ["routes.py:2"]


NOT_READS = {
    "a write": "def start(args):\n    args.port = 1\n",
    "a write by name": "def start(args):\n    setattr(args, 'port', 1)\n",
    "a name of an inner function": "def start(args):\n    def inner(a):\n        args = a\n        return args.port\n",
    "a log line": "def start(args):\n    logger.info('%s', args)\n",
    "a look at its type": "def start(args):\n    return isinstance(args, dict)\n",
    "a list called args": "def start(args: list[str]):\n    args.append('x')\n    popen(args)\n",
    "positional arguments": "def start(*args):\n    return args.count\n",
    "the arguments of an error": "def start(e):\n    return e.args.count\n",
}


@pytest.mark.parametrize("text", NOT_READS.values(), ids=NOT_READS)
def test_is_no_read(tmp_path: Path, text: str) -> None:
    found = scanned(tmp_path, server=text)
    assert found.reads == ()
    assert found.unreadable == ()


LOST = {
    "a computed name": ("def start(args, n):\n    return getattr(args, n)\n", "a name that is computed"),
    "vars": ("def start(args):\n    return vars(args)\n", "as a whole, through vars()"),
    "__dict__": ("def start(args):\n    return args.__dict__\n", "as a whole, through __dict__"),
    "a foreign function": ("import x\ndef start(args):\n    x.load(args)\n", "goes to x.load()"),
    "a container": ("def start(args):\n    return {'a': args}\n", "put into a container"),
    "a container's item": ("def start(args, d):\n    d['a'] = args\n", "stored where it is not followed"),
    "too many arguments": ("def start(args):\n    f(1, args)\ndef f(a):\n    pass\n", "goes to f()"),
    "a yield": ("def start(args):\n    yield args\n", "is yielded"),
}


@pytest.mark.parametrize(("text", "why"), LOST.values(), ids=LOST)
def test_what_cannot_be_followed_is_said(tmp_path: Path, text: str, why: str) -> None:
    found = scanned(tmp_path, server=text)
    assert [why in one.why for one in found.unreadable] == [True]
    assert str(found.unreadable[0].place) in ("server.py:2", "server.py:3")


def test_other_names_of_the_entrance_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("def start(options):\n    return options.port\n", encoding="utf-8")
    assert names(scan(read_source(tmp_path), ("options",))) == {"port"}
    assert names(scan(read_source(tmp_path), ("args",))) == set()


def test_files_that_are_not_python_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def (:\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("x = = 1\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as raised:
        read_source(tmp_path)
    assert [problem.partition(":")[0] for problem in raised.value.problems] == ["a.py", "b.py"]


def test_a_directory_without_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no Python file"):
        read_source(tmp_path)
    with pytest.raises(ConfigurationError, match="no such directory"):
        read_source(tmp_path / "absent")
