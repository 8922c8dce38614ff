"""The paper, reproduced and put to the test."""
