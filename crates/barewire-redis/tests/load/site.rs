//! Nodes behind HAProxy, each with a network of its own to one Redis.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::node;
use super::proxy::Network;
use crate::redis_server::{RedisServer, free_port, new_folder};

/// A cluster and its balancer. All processes are killed when it is dropped.
pub(crate) struct Site {
    pub(crate) redis: RedisServer,
    pub(crate) networks: Vec<Network>,
    nodes: Vec<(u16, Child)>,
    pub(crate) balancer_port: u16,
    balancer: Child,
    folder: PathBuf,
}

impl Site {
    /// Starts the processes, and waits until the balancer has nodes.
    pub(crate) async fn start(nodes: usize) -> Self {
        let redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
        let folder = new_folder();
        let (mut networks, mut started) = (Vec::new(), Vec::new());
        for _ in 0..nodes {
            let network = Network::to(redis.port()).await;
            let port = free_port();
            started.push((port, start_node(port, &network, &folder)));
            networks.push(network);
        }
        let balancer_port = free_port();
        let ports: Vec<u16> = started.iter().map(|(port, _)| *port).collect();
        fs::write(folder.join("haproxy.cfg"), settings(balancer_port, &ports)).expect("a file");
        let balancer = start_balancer(&folder);
        let site = Self { redis, networks, nodes: started, balancer_port, balancer, folder };
        site.wait_ready().await;
        site
    }

    /// Waits until all nodes are ready, and the balancer has noticed.
    pub(crate) async fn wait_ready(&self) {
        for (port, _) in &self.nodes {
            self.wait_for(*port, "GET /readyz").await;
        }
        self.wait_for(self.balancer_port, "GET /mcp").await;
        tokio::time::sleep(CHECK_TIME * 3).await;
    }

    /// Whether all nodes say that they are ready.
    pub(crate) async fn is_ready(&self) -> bool {
        for (port, _) in &self.nodes {
            if !is_served(*port, "GET /readyz").await {
                return false;
            }
        }
        true
    }

    /// Returns how often a text is in the logs of the nodes.
    pub(crate) fn logged(&self, text: &str) -> usize {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default().matches(text).count()
    }

    async fn wait_for(&self, port: u16, request: &str) {
        let start = Instant::now();
        while !is_served(port, request).await {
            assert!(start.elapsed() < Duration::from_secs(30), "{request} at port {port}:\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn kill_node(&mut self, node: usize) {
        let child = &mut self.nodes[node].1;
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }

    /// Starts a node that has ended again.
    pub(crate) fn restart_node(&mut self, node: usize) {
        let port = self.nodes[node].0;
        self.nodes[node].1 = start_node(port, &self.networks[node], &self.folder);
    }

    /// Asks a node to stop, and waits until it has.
    pub(crate) async fn stop_node(&mut self, node: usize) {
        let child = &mut self.nodes[node].1;
        drop(child.stdin.take());
        let start = Instant::now();
        while child.try_wait().expect("it is our child").is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "the node stops");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until a node that was started again serves.
    pub(crate) async fn wait_node(&self, node: usize) {
        self.wait_for(self.nodes[node].0, "GET /readyz").await;
    }

    pub(crate) fn signal_node(&self, node: usize, name: &str) {
        signal(&self.nodes[node].1, name);
    }

    pub(crate) fn signal_balancer(&self, name: &str) {
        signal(&self.balancer, name);
    }

    pub(crate) fn kill_balancer(&mut self) {
        self.balancer.kill().expect("it is our child");
        self.balancer.wait().expect("it is our child");
    }

    pub(crate) fn restart_balancer(&mut self) {
        self.balancer = start_balancer(&self.folder);
    }

    /// Returns the tokens of all calls that a node has run.
    pub(crate) fn ran(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("ran")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the ends of the logs.
    pub(crate) fn logs(&self) -> String {
        let mut all = String::new();
        for name in ["log", "haproxy.log"] {
            let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            all += &lines[lines.len().saturating_sub(25)..].join("\n");
            all.push('\n');
        }
        all
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().map(|(_, child)| child).chain([&mut self.balancer]) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn start_node(port: u16, network: &Network, folder: &Path) -> Child {
    let redis = format!("redis://127.0.0.1:{}", network.port);
    node::start(port, Some(&redis), &folder.join("ran"), &folder.join("log"))
}

fn start_balancer(folder: &Path) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("haproxy.log")).expect("a log");
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(folder.join("haproxy.cfg"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("these tests need HAProxy; on Debian: apt-get install haproxy")
}

/// Returns the settings of `docs/scaling.md`, with checks that are more frequent.
fn settings(port: u16, nodes: &[u16]) -> String {
    let servers = |check: &str| -> String {
        let server = |port| format!("  server node-{port} 127.0.0.1:{port}{check}\n");
        nodes.iter().map(server).collect()
    };
    let interval = CHECK_TIME.as_millis();
    let ready = servers(&format!(" check inter {interval}ms fall 2 rise 1"));
    let all = servers("");
    format!(
        "defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  option http-no-delay
  option redispatch 1
frontend mcp
  bind 127.0.0.1:{port}
  use_backend ready if {{ nbsrv(ready) gt 0 }}
  default_backend all
backend ready
  balance roundrobin
  option httpchk GET /readyz
{ready}backend all
  balance roundrobin
{all}"
    )
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    assert!(status.expect("there is a program kill").success());
}

/// Whether a server answers, and not with a 5xx.
async fn is_served(port: u16, request: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let text = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let read = async {
        stream.write_all(text.as_bytes()).await?;
        stream.read_to_end(&mut answer).await
    };
    let is_read = matches!(tokio::time::timeout(Duration::from_secs(2), read).await, Ok(Ok(_)));
    is_read && answer.len() > 9 && answer[9] < b'5'
}

/// The interval of the balancer's checks.
const CHECK_TIME: Duration = Duration::from_millis(200);
