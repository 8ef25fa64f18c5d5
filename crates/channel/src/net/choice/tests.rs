use super::*;

const ALL: Capabilities =
    Capabilities::MESSAGES.union(Capabilities::READ).union(Capabilities::ATOMICS);

fn offer(provider: &str, domain: &str, address: &str) -> ProviderOffer {
    let address = if let Ok(v4) = address.parse() {
        Address::V4(v4)
    } else if let Ok(v6) = address.parse() {
        Address::V6(v6)
    } else if address == "text" {
        Address::Text
    } else {
        Address::Native(address.parse().expect("a format"))
    };
    ProviderOffer {
        provider: provider.to_owned(),
        domain: domain.to_owned(),
        fabric: "fabric".to_owned(),
        plain: domain.starts_with("eth") || domain == "lo",
        address,
        capabilities: ALL,
        speed: None,
    }
}

/// What Debian's libfabric 1.17 offers on a machine with one network interface.
fn debian() -> Vec<ProviderOffer> {
    vec![
        offer("sockets", "eth0", "192.0.2.2"),
        offer("tcp;ofi_rxm", "eth0", "fe80::1"),
        offer("tcp;ofi_rxm", "eth0", "fd00::1"),
        offer("tcp;ofi_rxm", "eth0", "192.0.2.2"),
        offer("tcp;ofi_rxm", "lo", "127.0.0.1"),
        offer("tcp;ofi_rxm", "lo", "::1"),
        offer("net", "eth0", "192.0.2.2"),
        offer("shm", "shm", "text"),
        offer("udp;ofi_rxd", "eth0", "192.0.2.2"),
    ]
}

fn wish() -> ProviderRequest {
    ProviderRequest::default()
}

/// Provider and domain of the chosen offer, with its address.
fn chosen(offers: &[ProviderOffer], wish: &ProviderRequest) -> Option<String> {
    let verdicts = choose(offers, wish);
    assert_eq!(verdicts.len(), offers.len());
    let chosen = verdicts.iter().filter(|v| **v == ExposureVerdict::Chosen).count();
    assert!(chosen <= 1);
    let at = verdicts.iter().position(|v| *v == ExposureVerdict::Chosen)?;
    let offer = &offers[at];
    Some(format!("{} {} {}", offer.provider, offer.domain, offer.address))
}

fn words(offers: &[ProviderOffer], wish: &ProviderRequest, at: usize) -> String {
    choose(offers, wish)[at].to_string()
}

#[test]
fn sockets_by_the_card_where_there_is_nothing_better() {
    assert_eq!(chosen(&debian(), &wish()).unwrap(), "net eth0 192.0.2.2");
    for (at, why) in [
        (0, "net is preferred"),
        (1, "fe80::1 holds on its own link only"),
        (2, "net is preferred"),
        (4, "loopback does not leave this machine"),
        (7, "reaches this machine only, where shared memory is faster"),
        (8, "udp may lose what it carries and is slow"),
    ] {
        assert_eq!(words(&debian(), &wish(), at), why, "{at}");
    }
}

#[test]
fn real_fabrics_come_before_tcp_and_in_their_order() {
    let order = [
        "cxi",
        "efa",
        "opx",
        "psm3",
        "verbs;ofi_rxm",
        "psm2",
        "tcp",
        "net",
        "tcp;ofi_rxm",
        "sockets",
    ];
    for (better, worse) in order.iter().zip(&order[1..]) {
        let offers = [offer(worse, "a", "10.0.0.1"), offer(better, "b", "10.0.0.1")];
        assert!(chosen(&offers, &wish()).unwrap().starts_with(better), "{better} {worse}");
    }
    // A provider that uses the interface of tcp comes after it.
    let offers = [offer("psm3", "eth0", "13"), offer("sockets", "eth0", "10.0.0.1")];
    assert!(chosen(&offers, &wish()).unwrap().starts_with("sockets"));
    assert!(chosen(&offers[..1], &wish()).unwrap().starts_with("psm3"));
    // An unknown provider is better than none.
    let offers = [offer("warp", "w0", "99"), offer("sockets", "eth0", "10.0.0.1")];
    assert!(chosen(&offers, &wish()).unwrap().starts_with("sockets"));
    assert_eq!(chosen(&offers[..1], &wish()).unwrap(), "warp w0 native (format 99)");
}

#[test]
fn loopback_is_for_jobs_on_one_machine_or_for_who_names_it() {
    let together = ProviderRequest { all_on_one_machine: true, ..wish() };
    assert_eq!(chosen(&debian(), &together).unwrap(), "tcp;ofi_rxm lo 127.0.0.1");
    assert!(words(&debian(), &together, 3).starts_with("loopback is nearer"));
    let named = ProviderRequest { interface: Some("lo".to_owned()), ..wish() };
    assert_eq!(chosen(&debian(), &named).unwrap(), "tcp;ofi_rxm lo 127.0.0.1");
    let only = [offer("tcp", "lo", "127.0.0.1")];
    assert_eq!(chosen(&only, &wish()), None);
    // A fabric that loops back through its own adapter is kept.
    let offers = [offer("tcp", "lo", "127.0.0.1"), offer("efa", "rdmap0", "12")];
    assert!(chosen(&offers, &together).unwrap().starts_with("efa"));
}

#[test]
fn a_provider_is_asked_for_by_its_first_part_or_whole() {
    for (name, found) in [
        ("tcp", Some("tcp;ofi_rxm eth0 192.0.2.2")),
        ("tcp;ofi_rxm", Some("tcp;ofi_rxm eth0 192.0.2.2")),
        ("net;ofi_rxm", None),
        ("net", Some("net eth0 192.0.2.2")),
        ("sockets", Some("sockets eth0 192.0.2.2")),
        ("shm", None),
        ("udp", None),
        ("verbs", None),
        ("tcp;ofi_rxd", None),
    ] {
        let wish = ProviderRequest { provider: Some(name.to_owned()), ..wish() };
        assert_eq!(chosen(&debian(), &wish).as_deref(), found, "{name}");
    }
    let mut asked = debian();
    asked.remove(6);
    assert_eq!(words(&asked, &wish(), 2), "IPv4 is preferred");
    let native = [offer("tcp;ofi_rxm", "eth0", "10.0.0.1"), offer("tcp", "eth0", "10.0.0.1")];
    let wish = ProviderRequest { provider: Some("tcp".to_owned()), ..wish() };
    assert_eq!(chosen(&native, &wish).unwrap(), "tcp eth0 10.0.0.1");
}

#[test]
fn an_interface_is_asked_for_by_name_or_address() {
    for (name, found) in [
        ("fd00::1", Some("tcp;ofi_rxm eth0 fd00::1")),
        ("::1", Some("tcp;ofi_rxm lo ::1")),
        ("192.0.2.2", Some("net eth0 192.0.2.2")),
        ("eth0", Some("net eth0 192.0.2.2")),
        ("eth1", None),
    ] {
        let wish = ProviderRequest { interface: Some(name.to_owned()), ..wish() };
        assert_eq!(chosen(&debian(), &wish).as_deref(), found, "{name}");
    }
}

#[test]
fn of_equals_the_more_capable_then_the_faster_then_the_first() {
    let mut offers = vec![
        offer("tcp", "eth0", "10.0.0.1"),
        offer("tcp", "eth1", "10.0.1.1"),
        offer("tcp", "eth2", "10.0.2.1"),
    ];
    assert_eq!(chosen(&offers, &wish()).unwrap(), "tcp eth0 10.0.0.1");
    assert!(words(&offers, &wish(), 1).contains("as good as eth0 10.0.0.1"));
    offers[1].speed = Some(100_000_000_000);
    assert_eq!(chosen(&offers, &wish()).unwrap(), "tcp eth1 10.0.1.1");
    assert_eq!(words(&offers, &wish(), 0), "eth1 is faster");
    offers[1].capabilities.remove(Capabilities::ATOMICS);
    assert_eq!(chosen(&offers, &wish()).unwrap(), "tcp eth0 10.0.0.1");
    assert_eq!(words(&offers, &wish(), 1), "no atomic operations");
    offers[0].capabilities = Capabilities::MESSAGES;
    offers[2].capabilities = Capabilities::MESSAGES;
    assert_eq!(words(&offers, &wish(), 0), "no remote memory access");
}

#[test]
fn what_carries_no_messages_or_is_a_hook_is_unfit() {
    let mut offers =
        vec![offer("tcp;ofi_hook_perf", "eth0", "10.0.0.1"), offer("efa", "rdmap0", "12")];
    offers[1].capabilities = Capabilities::READ;
    assert_eq!(chosen(&offers, &wish()), None);
    assert_eq!(chosen(&[], &wish()), None);
}

#[test]
fn a_wish_is_put_in_words() {
    assert_eq!(wish().to_string(), "any provider, any interface that leads off this machine");
    let wish = ProviderRequest {
        provider: Some("verbs".to_owned()),
        interface: Some("lo".to_owned()),
        all_on_one_machine: true,
    };
    assert_eq!(
        wish.to_string(),
        "provider verbs (MICA_NET_PROVIDER), interface lo (MICA_NET_INTERFACE)"
    );
}
