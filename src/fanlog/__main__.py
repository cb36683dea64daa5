"""`python -m fanlog` is the `fanlog` command."""

from fanlog.cli.main import main

main()
