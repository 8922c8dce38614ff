"""What an installation lacks is said with what to install; our own mistakes are not hidden."""

import pytest

from fedsel._internal.extras import MissingExtra, check_installed, needed


def test_a_part_of_a_package_is_named_by_its_package():
    told = r"^figures: no_such is missing, pip install 'fedsel\[plots\]'$"
    with pytest.raises(MissingExtra, match=told) as found, needed("plots", "figures"):
        raise ModuleNotFoundError(name="no_such.part")
    assert found.value.name == "no_such.part"
    with pytest.raises(MissingExtra, match=told):
        check_installed("plots", "figures", "json", "no_such")


def test_what_is_installed_is_no_error():
    check_installed("plots", "figures", "json", "numpy")


def test_a_module_of_our_own_that_is_missing_is_no_extra():
    with pytest.raises(ModuleNotFoundError) as found, needed("plots", "figures"):
        import fedsel.no_such_module  # noqa: F401
    assert not isinstance(found.value, MissingExtra)


def test_another_error_passes():
    with pytest.raises(ZeroDivisionError), needed("plots", "figures"):
        _ = 1 / 0
