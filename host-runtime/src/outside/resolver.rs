//! Questions about names that this machine's name servers answer, as its resolver would ask them.

use super::datagrams::socket_to;
use crate::limits::{DATAGRAM_BYTES, NAME_SERVER_TIME, NAME_SERVERS};
use std::io::{Error, Result};
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The file that names this machine's name servers.
const RESOLVER: &str = "/etc/resolv.conf";
/// The port of name servers.
const PORT: u16 = 53;
/// Bytes of a message's header: its number, its flags and four counts.
const HEADER: usize = 12;
/// The bit of an answer in the third byte.
const IS_ANSWER: u8 = 0x80;

/// Asks this machine's name servers, one after the other, and returns the first answer; `None` if there is none. `question` is a whole
/// message, and the answer has its number. `number` is the one that is sent, which nobody can guess.
pub async fn ask(question: &[u8], number: u16, is_udp: bool) -> Option<Vec<u8>> {
    // A short file, which is in memory.
    let servers = name_servers(&std::fs::read_to_string(RESOLVER).ok()?);
    ask_servers(&servers, question, number, is_udp).await
}

async fn ask_servers(servers: &[SocketAddr], question: &[u8], number: u16, is_udp: bool) -> Option<Vec<u8>> {
    let own = question.get(..2).filter(|_| question.len() >= HEADER)?;
    let mut sent = question.to_vec();
    sent[..2].copy_from_slice(&number.to_be_bytes());
    for server in servers {
        let asked = async {
            match is_udp {
                true => ask_by_datagram(*server, &sent).await,
                false => ask_by_connection(*server, &sent).await,
            }
        };
        if let Ok(Ok(mut answer)) = timeout(NAME_SERVER_TIME, asked).await {
            answer[..2].copy_from_slice(own);
            return Some(answer);
        }
    }
    None
}

/// The name servers that a resolver's configuration names, as far as resolvers use them.
fn name_servers(text: &str) -> Vec<SocketAddr> {
    let named = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        let address: IpAddr = words.next().filter(|_| is_server)?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    });
    named.take(NAME_SERVERS).collect()
}

async fn ask_by_datagram(server: SocketAddr, question: &[u8]) -> Result<Vec<u8>> {
    let socket = socket_to(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if is_answer(&buffer[..length], question) {
            return Ok(buffer[..length].to_vec());
        }
    }
}

async fn ask_by_connection(server: SocketAddr, question: &[u8]) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(Error::other)?;
    // Each message has its length before it.
    let message = [&length.to_be_bytes()[..], question].concat();
    stream.write_all(&message).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    match is_answer(&answer, question) {
        true => Ok(answer),
        false => Err(Error::other("the name server's answer is to another question")),
    }
}

/// Whether a message is an answer with the number of a question.
fn is_answer(message: &[u8], question: &[u8]) -> bool {
    message.len() >= HEADER && message[..2] == question[..2] && message[2] & IS_ANSWER != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, UdpSocket};

    #[test]
    fn name_servers_are_those_of_the_file_and_at_most_three() {
        let text = "# nameserver 9.9.9.9\nsearch a b\nnameserver 127.0.0.53\nnameserver\tfd00::53 # own\n\
                    nameserver not-one\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n";
        let shown: Vec<_> = name_servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.0.53:53", "[fd00::53]:53", "10.0.0.1:53"]);
        assert!(name_servers("").is_empty());
    }

    fn question() -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(b"\x01a\0\0\x01\0\x01");
        bytes
    }

    #[tokio::test]
    async fn the_next_server_is_asked_and_answers_to_others_are_passed_over() {
        let closed = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let answering = async {
            let mut buffer = [0; 64];
            let (length, client) = server.recv_from(&mut buffer).await.unwrap();
            let mut answer = buffer[..length].to_vec();
            assert_eq!(answer[..2], [0x12, 0x34], "the number of the client is not passed on");
            // Neither an answer nor with the right number.
            server.send_to(&answer, client).await.unwrap();
            answer[2] |= IS_ANSWER;
            let mut forged = answer.clone();
            forged[0] = 0;
            server.send_to(&forged, client).await.unwrap();
            server.send_to(&[0x12, 0x34, IS_ANSWER], client).await.unwrap();
            server.send_to(&answer, client).await.unwrap();
        };
        let servers = [closed, address];
        let question = question();
        let (answer, ()) = tokio::join!(ask_servers(&servers, &question, 0x1234, true), answering);
        let answer = answer.unwrap();
        assert_eq!((&answer[..2], answer[2] & IS_ANSWER), (&question[..2], IS_ANSWER));
    }

    #[tokio::test]
    async fn long_answers_come_over_connections_and_short_questions_are_none() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut bytes).await.unwrap();
            bytes[2] |= IS_ANSWER;
            bytes.resize(4000, 7);
            stream.write_u16(4000).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
        };
        let question = question();
        let servers = [address];
        let (answer, ()) = tokio::join!(ask_servers(&servers, &question, 1, false), answering);
        assert_eq!(answer.unwrap().len(), 4000);
        assert_eq!(ask_servers(&servers, &question[..HEADER - 1], 1, true).await, None);
        assert_eq!(ask_servers(&[], &question, 1, true).await, None);
    }
}
