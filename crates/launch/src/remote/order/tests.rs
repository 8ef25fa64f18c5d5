use super::*;
use crate::options::values::shell_words::command_line;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn order(nodes: u32, fanout: usize) -> StartOrder {
    let node =
        |number| NodeStart { number, host: format!("h{number}"), secret: format!("{number:064x}") };
    StartOrder {
        method: StartMethod {
            shell: Some(vec!["rsh".to_owned()]),
            extra: Vec::new(),
            program: "/bin/mpiexec".into(),
            addresses: vec!["10.0.0.1:5".parse().unwrap()],
            fanout,
        },
        nodes: (0..nodes).map(node).collect(),
    }
}

/// What came of carrying out an order, and the orders that it led to.
#[derive(Default)]
struct StartTree {
    /// By node: the host that ran the command which starts its agent, and how far that is from
    /// the controller.
    agents: BTreeMap<usize, (String, usize)>,
    /// The most commands for other hosts that one host ran.
    widest: usize,
    deepest: usize,
    /// By host: the nodes whose secrets it was given.
    learnt: BTreeMap<String, usize>,
}

impl StartTree {
    fn run(&mut self, on: &str, depth: usize, commands: Vec<AgentCommand>) {
        let elsewhere = commands.iter().filter(|start| start.command[0] == "rsh");
        self.widest = self.widest.max(elsewhere.count());
        self.deepest = self.deepest.max(depth);
        for start in commands {
            if !start.is_starter {
                let [node] = start.nodes[..] else {
                    panic!("an agent of {:?}", start.nodes);
                };
                assert_eq!(start.input, format!("{node:064x}"));
                let again = self.agents.insert(node, (on.to_owned(), depth));
                assert!(again.is_none(), "node {node} is started twice");
                continue;
            }
            let order = StartOrder::from_line(start.input.as_bytes()).unwrap();
            let numbers = order.nodes.iter().map(|node| node.number as usize);
            assert!(numbers.eq(start.nodes.iter().copied()));
            let host = start.command[1].to_str().unwrap().to_owned();
            assert_eq!(host, order.nodes[0].host);
            self.learnt.insert(host.clone(), order.nodes.len());
            self.run(&host, depth + 1, order.commands());
        }
    }
}

#[test]
fn up_to_the_fanout_the_controller_starts_all_itself() {
    for (nodes, fanout) in [(32, 32), (1, 32), (1000, 0)] {
        let order = order(nodes, fanout);
        let commands = order.method.commands_for(&order.nodes);
        assert_eq!(commands.len(), nodes as usize);
        assert!(commands.iter().all(|start| !start.is_starter));
    }
}

/// 10,000 ranks on hosts of 32 need one step more, and 10,000 hosts two.
#[test]
fn a_tree_is_as_deep_as_it_must_be() {
    for (nodes, depth) in [(33, 1), (313, 1), (1056, 1), (1057, 2), (10_000, 2)] {
        let order = order(nodes, FANOUT);
        let mut tree = StartTree::default();
        tree.run("head", 0, order.method.commands_for(&order.nodes));
        assert_eq!(tree.agents.len(), nodes as usize);
        assert_eq!(tree.widest, FANOUT, "{nodes}");
        assert_eq!(tree.deepest, depth, "{nodes}");
        let most = (nodes as usize).div_ceil(FANOUT);
        assert!(tree.learnt.values().all(|&secrets| secrets <= most));
    }
}

#[test]
fn lines_name_the_nodes_that_refused() {
    assert_eq!(refused_nodes(&refused_line(&[3])), Some(vec![3]));
    assert_eq!(refused_nodes(&refused_line(&[3, 40_000])), Some(vec![3, 40_000]));
    for other in ["", "Welcome to host 3", "mica-starter: refused ", "mica-starter: refused 1;2"] {
        assert_eq!(refused_nodes(other), None, "{other}");
    }
}

fn lines(launcher: AgentLauncher, hosts: &[&str], shell: Option<&str>) -> Vec<String> {
    lines_with(launcher, hosts, shell, &[])
}

fn lines_with(
    launcher: AgentLauncher,
    hosts: &[&str],
    shell: Option<&str>,
    extra: &[String],
) -> Vec<String> {
    let node = |host: &&str| NodeRanks { host: host.to_string(), members: vec![0] };
    let nodes = JobNodes { launcher, nodes: hosts.iter().map(node).collect() };
    let options = HostOptions {
        launcher_exec: shell.map(|words| words.split(' ').map(str::to_owned).collect()),
        launcher_args: extra.to_vec(),
        ..HostOptions::default()
    };
    let addresses = ["10.0.0.1:5".parse().unwrap()];
    let key = JobKey::new().unwrap();
    let starts = commands(&nodes, &options, Path::new("/a b/it's"), &addresses, &key);
    starts.into_iter().map(|start: AgentCommand| command_line(&start.command)).collect()
}

/// Hosts that are this machine are not started from another, which would take the name for its
/// own; and another remote shell than ssh may be there on this host only.
#[test]
fn a_tree_of_ssh_has_this_machine_outside() {
    let names: Vec<String> = (0..64).map(|host| format!("h{host}")).collect();
    let mut hosts: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(lines(AgentLauncher::Ssh, &hosts, Some("rsh")).len(), 64);
    hosts.insert(1, "localhost");
    let ssh = lines(AgentLauncher::Ssh, &hosts, None);
    assert_eq!(ssh.len(), FANOUT + 1);
    assert_eq!(ssh[0], r"ssh -x -o BatchMode=yes h0 exec '/a b/it'\''s' '--starter'");
    assert_eq!(ssh[1], "/a b/it's --agent 10.0.0.1:5 1");
}

#[test]
fn ssh_gets_one_quoted_line() {
    let wanted = r"ssh -x -o BatchMode=yes h exec '/a b/it'\''s' '--agent' '10.0.0.1:5' '0'";
    assert_eq!(lines(AgentLauncher::Ssh, &["h"], None), [wanted]);
    let own = lines(AgentLauncher::Ssh, &["h"], Some("/usr/bin/ssh -p 2222"));
    assert!(own[0].starts_with("/usr/bin/ssh -p 2222 h exec '/a b"), "{own:?}");
    let mixed = lines(AgentLauncher::Ssh, &["h", "localhost"], None);
    assert_eq!(mixed[1], "/a b/it's --agent 10.0.0.1:5 1", "this machine needs no ssh");
}

#[test]
fn more_arguments_come_before_the_host() {
    let extra = ["-p".to_owned(), "2222".to_owned()];
    let ssh = lines_with(AgentLauncher::Ssh, &["h"], None, &extra);
    assert!(ssh[0].starts_with("ssh -x -o BatchMode=yes -p 2222 h exec"), "{ssh:?}");
    let srun = lines_with(AgentLauncher::Srun, &["h"], None, &extra);
    assert!(srun[0].contains("--overlap --input=all -p 2222 /a b"), "{srun:?}");
}

#[test]
fn other_shells_get_words() {
    let words = lines(AgentLauncher::Ssh, &["n1", "n2"], Some("ip netns exec"));
    assert_eq!(words[1], "ip netns exec n2 /a b/it's --agent 10.0.0.1:5 1");
    assert_eq!(lines(AgentLauncher::Fork, &["n1"], None), ["/a b/it's --agent 10.0.0.1:5 0"]);
}

#[test]
fn slurm_starts_all_at_once() {
    let words = lines(AgentLauncher::Srun, &["n1", "n2"], None);
    assert_eq!(
        words,
        ["srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=n1,n2 --mpi=none \
          --cpu-bind=none --overlap --input=all /a b/it's --agent 10.0.0.1:5 slurm"]
    );
}

proptest! {
    #[test]
    fn every_agent_is_started_once(nodes in 1u32..400, fanout in 0usize..9) {
        let order = order(nodes, fanout);
        let mut tree = StartTree::default();
        tree.run("head", 0, order.method.commands_for(&order.nodes));
        prop_assert!(tree.agents.keys().copied().eq(0..nodes as usize));
        prop_assert!(fanout == 0 || tree.widest <= fanout);
    }

    #[test]
    fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = StartOrder::from_line(&line);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in "([0-9a-f]{2}){0,100}") {
        let _ = StartOrder::from_line(bytes.as_bytes());
    }
}
