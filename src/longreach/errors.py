"""The two ways a command can end badly: the input is wrong, or a run failed."""


class InputError(Exception):
    """Something given to longreach is wrong; the message says what, what was expected, what to do.

    The command line prints the message alone and exits with 2.
    """


class RunError(Exception):
    """A run could not be finished (a full disk, a loss that is not a number); exit code 1."""
