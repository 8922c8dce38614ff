"""Mutation testing: change the code in one place at a time, and see whether a test notices.

The mutants and the session file are cosmic-ray's, so ``cr-report`` and ``cr-html`` read what is
written here. Three things are added:

- A statement can be left out (a flush, a check, a refusal), for which cosmic-ray has no operator
  (`generating`).
- A mutant gets only the tests that execute what it changes, the quickest first (`baseline`).
- The tests are collected once. A mutant that changes functions alone gets them in a fork of that
  process, with the code of its live functions replaced (`patching`); one that changes what runs at
  import gets them in a fork that imports the package afresh (`running`).

A copy of the checkout is changed, never the checkout. What was killed stays killed until its module
changes; survivors are tried again with the tests that have changed. So a run that was stopped can
go on.
"""
