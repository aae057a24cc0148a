use super::*;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn text_there_and_back() {
    for text in
        ["0", "-0.01", "1.00", "99999999999999999999999999999999999999", "0.00000000000000000000000000000000000001"]
    {
        assert_eq!(decimal(text).to_string(), text);
    }
    assert_eq!(decimal("+.5").to_string(), "0.5");
    assert_eq!(decimal("12e2").to_string(), "1200");
    assert_eq!(decimal("1.25E-3").to_string(), "0.00125");
    for text in ["", ".", "1.2.3", "abc", "1e", "--1", "999999999999999999999999999999999999999", "1e99999999999"] {
        assert!(Decimal::parse(text).is_none(), "{text}");
    }
}

/// The right-hand sides are PostgreSQL 15's.
#[test]
fn arithmetic_is_postgres() {
    assert_eq!(decimal("1.10").plus(decimal("2.205")).unwrap().to_string(), "3.305");
    assert_eq!(decimal("1.10").minus(decimal("2.205")).unwrap().to_string(), "-1.105");
    assert_eq!(decimal("1.10").times(decimal("2.205")).unwrap().to_string(), "2.42550");
    for (left, right, quotient) in [
        ("1", "3", "0.33333333333333333333"),
        ("10", "4", "2.5000000000000000"),
        ("2", "3", "0.66666666666666666667"),
        ("-2", "3", "-0.66666666666666666667"),
        ("100000", "7", "14285.714285714286"),
        ("1.000", "8", "0.12500000000000000000"),
        ("123456789.12", "0.07", "1763668416.00000000"),
        ("0", "5", "0.00000000000000000000"),
        ("7", "100000", "0.000070000000000000000000"),
        ("99999999999999999999.5", "3", "33333333333333333333.2"),
        ("0.001", "3", "0.00033333333333333333"),
    ] {
        assert_eq!(decimal(left).divide(decimal(right)).unwrap().to_string(), quotient, "{left} / {right}");
    }
    assert_eq!(decimal("-7.5").remainder(decimal("2")).unwrap().to_string(), "-1.5");
    assert_eq!(decimal("1").divide(decimal("0.00")).unwrap_err().sqlstate(), "22012");
}

#[test]
fn rounding_is_half_away_from_zero() {
    assert_eq!(decimal("2.345").rescale(2).unwrap().to_string(), "2.35");
    assert_eq!(decimal("-2.345").rescale(2).unwrap().to_string(), "-2.35");
    assert_eq!(decimal("-2.5").to_i64().unwrap(), -3);
    assert_eq!(decimal("-2.5").floor_to(0).unwrap().to_string(), "-3");
    assert_eq!(decimal("99.99").fit(4, 2).unwrap().to_string(), "99.99");
    assert_eq!(decimal("99.995").fit(4, 2).unwrap_err().sqlstate(), "22003");
}

#[test]
fn what_does_not_fit() {
    let largest = decimal("99999999999999999999999999999999999999");
    assert_eq!(largest.plus(decimal("1")).unwrap_err().sqlstate(), "22003");
    assert_eq!(largest.plus(largest).unwrap_err().sqlstate(), "22003");
    assert_eq!(largest.negated().minus(largest).unwrap_err().sqlstate(), "22003");
    assert_eq!(largest.times(decimal("2")).unwrap_err().sqlstate(), "22003");
    assert_eq!(largest.rescale(1).unwrap_err().sqlstate(), "22003");
    // No digit is lost, not even a zero.
    let third = decimal("0.33333333333333333333333333333333333333");
    assert_eq!(third.times(third).unwrap_err().sqlstate(), "22003");
    assert_eq!(largest.plus(decimal("0.0")).unwrap_err().sqlstate(), "22003");
    assert_eq!(largest.divide(decimal("1.5")).unwrap().to_string(), "66666666666666666666666666666666666666");
}

#[test]
fn order_is_of_the_number() {
    let ordered =
        ["-99999999999999999999999999999999999999", "-1.5", "-1.05", "0", "0.01", "1", "1.0000000000000000001"];
    for pair in ordered.windows(2) {
        assert!(decimal(pair[0]) < decimal(pair[1]), "{pair:?}");
    }
    assert_eq!(decimal("1.0"), decimal("1.000"));
    assert!(decimal("99999999999999999999999999999999999999") > decimal("0.00000000000000000000000000000000000001"));
}

#[test]
fn floats() {
    assert_eq!(decimal("0.1").to_f64(), 0.1);
    assert_eq!(decimal("123456789012345678.901").to_f64(), 123456789012345678.901);
    assert_eq!(Decimal::from_f64(0.1).unwrap().to_string(), "0.1");
    assert_eq!(Decimal::from_f64(-2.5e3).unwrap().to_string(), "-2500");
    assert!(Decimal::from_f64(f64::NAN).is_none());
}
