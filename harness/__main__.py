"""`python -m harness VERB`."""

from harness.cli import main

raise SystemExit(main())
