//! The names in a client certificate, as grpcio shows them to those who judge its caller.

use std::net::{Ipv4Addr, Ipv6Addr};

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

#[derive(Debug, Default, PartialEq)]
pub struct Names {
    /// Hosts, addresses, mail addresses and URIs, in the order of the certificate.
    pub alternative: Vec<Vec<u8>>,
    /// The first one of the subject; empty where there is none.
    pub common: Vec<u8>,
}

/// Of a certificate that was verified. One that cannot be read names nobody.
pub fn names_of(der: &[u8]) -> Names {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return Names::default();
    };
    let common = certificate.subject().iter_common_name().next();
    let common = common.and_then(|name| name.as_str().ok()).unwrap_or_default().into();
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Names { alternative: Vec::new(), common };
    };
    Names { alternative: extension.value.general_names.iter().filter_map(shown).collect(), common }
}

/// None: of a kind that no line of a file of principals can name.
fn shown(name: &GeneralName) -> Option<Vec<u8>> {
    match name {
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) | GeneralName::URI(text) => Some((*text).into()),
        GeneralName::IPAddress(address) => {
            let v4 = <[u8; 4]>::try_from(*address).map(|four| Ipv4Addr::from(four).to_string());
            let v6 = || <[u8; 16]>::try_from(*address).map(|all| Ipv6Addr::from(all).to_string());
            v4.or_else(|_| v6()).ok().map(String::into_bytes)
        }
        _ => None,
    }
}

/// Whether it is in force at this second since 1970.
pub fn is_in_force(der: &[u8], now_s: u64) -> bool {
    let now = i64::try_from(now_s).ok().and_then(|now| ASN1Time::from_timestamp(now).ok());
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return false;
    };
    now.is_some_and(|now| certificate.validity().is_valid_at(now))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    #[test]
    fn what_is_no_certificate_names_nobody_and_is_not_in_force() {
        assert_eq!(names_of(b"\x30\x03abc"), Names::default());
        assert!(!is_in_force(b"\x30\x03abc", 0));
    }

    /// In force from 2026-11-30 on for 20 years: CN=orders, DNS:orders.example.
    const ORDERS: &[u8] = include_bytes!("../testdata/orders.der");

    #[test]
    fn names_and_days_of_one_are_read() {
        let names = names_of(ORDERS);
        assert_eq!((names.alternative, names.common), (vec![b"orders.example".to_vec()], b"orders".to_vec()));
        assert!(is_in_force(ORDERS, 1_800_000_000));
        assert!(!is_in_force(ORDERS, 1_700_000_000) && !is_in_force(ORDERS, 4_000_000_000));
        assert!(!is_in_force(ORDERS, u64::MAX));
    }

    proptest! {
        #[test]
        fn bytes_that_are_nearly_one_end_nobody(changes in vec((any::<Index>(), any::<u8>()), 1..6), end in any::<Index>()) {
            let mut der = ORDERS.to_vec();
            for (place, byte) in changes {
                let place = place.index(der.len());
                der[place] = byte;
            }
            names_of(&der);
            names_of(&der[..end.index(der.len())]);
            is_in_force(&der, 1_800_000_000);
        }
    }

    #[test]
    fn names_are_written_as_openssl_writes_them() {
        assert_eq!(shown(&GeneralName::DNSName("a.b")).unwrap(), b"a.b");
        assert_eq!(shown(&GeneralName::URI("spiffe://a/b")).unwrap(), b"spiffe://a/b");
        assert_eq!(shown(&GeneralName::IPAddress(&[127, 0, 0, 1])).unwrap(), b"127.0.0.1");
        let mut loopback = [0; 16];
        loopback[15] = 1;
        assert_eq!(shown(&GeneralName::IPAddress(&loopback)).unwrap(), b"::1");
        assert_eq!(shown(&GeneralName::IPAddress(&[1, 2])), None);
    }
}
