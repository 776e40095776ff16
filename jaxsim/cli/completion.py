"""`jaxsim completion`: what makes a shell complete the command line."""

import argparse
import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jaxsim.cli.exit_codes import OK

_DESCRIPTION = """\
Print a script that makes a shell complete commands, options, and names of presets, models and accelerators.
"""

_EXAMPLE = """\
examples:
  source <(jaxsim completion bash)                       # in ~/.bashrc, to keep it
  source <(jaxsim completion zsh)                        # in ~/.zshrc, after compinit
  jaxsim completion fish | source                        # in ~/.config/fish/config.fish
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "completion", help="a script that completes command lines", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell")
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    from jaxsim.cli.main import parser

    print(script(parser(), args.shell), end="")
    return OK


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        names: such as `--seeds`.
        help: one line.
        value: what it takes, such as `N`; empty if nothing.
        values: the values it may have, if they can be listed.
    """

    names: tuple[str, ...]
    help: str
    value: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """A command and what may follow it.

    Attributes:
        path: its words, such as `("trace", "fit")`.
        help: one line.
        options: its options.
        words: what may stand in place of its first argument, if that can be listed.
        commands: its subcommands.
    """

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...]
    commands: tuple["Command", ...]

    def tree(self) -> Iterator["Command"]:
        """This command and all below it."""
        yield self
        for command in self.commands:
            yield from command.tree()


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script of a parser.

    Args:
        parser: with all its commands.
        shell: `bash`, `zsh` or `fish`.

    Raises:
        KeyError: another shell.
    """
    return _SCRIPTS[shell](_command(parser, (), ""))


def _command(parser: argparse.ArgumentParser, path: tuple[str, ...], help: str) -> Command:
    options: list[Option] = []
    words: tuple[str, ...] = ()
    commands: list[Command] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            commands += [_command(one, (*path, name), told.get(name, "")) for name, one in action.choices.items()]
        elif action.option_strings:
            takes = action.nargs != 0
            value = str(action.metavar or action.dest.upper()) if takes else ""
            options.append(Option(tuple(action.option_strings), _line(action.help), value, _values(action)))
        elif not words:
            words = _values(action)
    return Command(path, _line(help), tuple(options), words, tuple(commands))


def _values(action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    if action.dest in ("model", "hardware"):
        text = (files("jaxsim") / "specs" / "facts" / f"{_TABLES[action.dest]}.csv").read_text(encoding="utf-8")
        return tuple(row["name"] for row in csv.DictReader(text.splitlines()))
    if action.dest == "preset" or (action.dest == "workload" and action.metavar == "PRESET"):
        from jaxsim.config.presets import PRESETS

        return tuple(PRESETS)
    return ()


_TABLES = {"model": "models", "hardware": "hardware"}


def _line(text: str | None) -> str:
    """The first clause of a help text."""
    line = re.split(r"; | \(|: ", (text or "").replace("%%", "%"))[0]
    return line if len(line) <= 70 else f"{line[:67]}..."


def _bash(root: Command) -> str:
    paths, values, offers = [], [], []
    for command in root.tree():
        name = " ".join(command.path)
        if command.path:
            paths.append(f'      "{" ".join(command.path)}") path="{name}" ;;')
        for option in command.options:
            if option.values:
                patterns = "|".join(f'"{name}:{spelling}"' for spelling in option.names)
                values.append(f'    {patterns}) offer="{" ".join(option.values)}" ;;')
            elif option.value:
                patterns = "|".join(f'"{name}:{spelling}"' for spelling in option.names)
                values.append(f"    {patterns}) return ;;")
        below = [*(one.path[-1] for one in command.commands), *command.words]
        flags = " ".join(spelling for option in command.options for spelling in option.names)
        offers.append(f'    "{name}") words="{" ".join(below)}"; flags="{flags}" ;;')
    return "\n".join(
        [
            "# Completion of jaxsim for bash: source <(jaxsim completion bash)",
            "_jaxsim() {",
            '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
            '  local path="" offer="" words="" flags="" next i',
            "  COMPREPLY=()",
            "  for ((i = 1; i < COMP_CWORD; i++)); do",
            '    next="${path:+$path }${COMP_WORDS[i]}"',
            '    case "$next" in',
            *paths,
            "    esac",
            "  done",
            '  case "$path:$prev" in',
            *values,
            "  esac",
            '  if [[ -z "$offer" ]]; then',
            '    case "$path" in',
            *(f"  {line}" for line in offers),
            "    esac",
            '    if [[ "$cur" == -* ]]; then offer="$flags"; else offer="$words"; fi',
            "  fi",
            '  COMPREPLY=($(compgen -W "$offer" -- "$cur"))',
            "}",
            "complete -o default -F _jaxsim jaxsim",
            "",
        ]
    )


def _zsh(root: Command) -> str:
    functions = []
    for command in root.tree():
        lines = [f"_{'_'.join(('jaxsim', *command.path))}() {{"]
        specs = [spec for option in command.options for spec in _zsh_option(option)]
        if command.commands:
            told = " ".join(_quoted(f"{one.path[-1]}:{one.help.replace(':', ' ')}") for one in command.commands)
            calls = [f"        {one.path[-1]}) _{'_'.join(('jaxsim', *one.path))} ;;" for one in command.commands]
            lines += [
                "  local line state",
                f"  _arguments -C {' '.join(specs)} '1: :->command' '*::arg:->args'",
                "  case $state in",
                "    command)",
                f"      local -a commands=({told})",
                "      _describe command commands ;;",
                "    args)",
                "      case $line[1] in",
                *calls,
                "      esac ;;",
                "  esac",
            ]
        else:
            first = f"'1: :({' '.join(command.words)})'" if command.words else ""
            lines.append(f"  _arguments {' '.join(specs)} {first} '*:file:_files'")
        functions.append("\n".join([*lines, "}"]))
    return "\n".join(
        ["#compdef jaxsim", "# Completion of jaxsim for zsh: source <(jaxsim completion zsh)", *functions]
        + ["compdef _jaxsim jaxsim", ""]
    )


def _zsh_option(option: Option) -> Iterator[str]:
    help = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
    for spelling in option.names:
        spec = f"{spelling}[{help}]"
        if option.values:
            spec += f":{option.value.replace(':', ' ')}:({' '.join(option.values)})"
        elif option.value:
            spec += f":{option.value.replace(':', ' ')}:_files"
        yield _quoted(f"*{spec}")


def _fish(root: Command) -> str:
    lines = ["# Completion of jaxsim for fish: jaxsim completion fish | source", "complete -c jaxsim -e"]
    for command in root.tree():
        seen = [f"__fish_seen_subcommand_from {word}" for word in command.path]
        below = [one.path[-1] for one in command.commands]
        if below:
            none = f"not __fish_seen_subcommand_from {' '.join(below)}"
            when = "; and ".join([*seen, none])
            lines += [
                f"complete -c jaxsim -n {_quoted(when)} -f -a {_quoted(one.path[-1])} -d {_quoted(one.help)}"
                for one in command.commands
            ]
        else:
            when = "; and ".join(seen) if seen else "true"
        if command.words:
            lines.append(f"complete -c jaxsim -n {_quoted(when)} -f -a {_quoted(' '.join(command.words))}")
        for option in command.options:
            parts = [f"complete -c jaxsim -n {_quoted(when)}"]
            parts += [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
            if option.values:
                parts.append(f"-x -a {_quoted(' '.join(option.values))}")
            elif option.value:
                parts.append("-r")
            lines.append(" ".join([*parts, "-d", _quoted(option.help)]))
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_SCRIPTS: Mapping[str, Callable[[Command], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
