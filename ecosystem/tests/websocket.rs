//! WebSockets by `async-tungstenite` over our streams, without any of its runtime features.

use async_tungstenite::tungstenite::Message;
use async_tungstenite::{accept_async, client_async};
use futures::StreamExt;
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{block_on, spawn};
use mainspring_ecosystem::watchdog;

#[test]
fn websocket_messages_come_back_in_order_and_both_sides_close() {
    let _watchdog = watchdog();
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/chat", listener.local_addr().unwrap());
        let addr = listener.local_addr().unwrap();
        let server = spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = accept_async(stream).await.unwrap();
            let mut echoed = 0;
            while let Some(message) = socket.next().await {
                let message = message.unwrap();
                if message.is_text() || message.is_binary() {
                    socket.send(message).await.unwrap();
                    echoed += 1;
                }
            }
            echoed
        });

        let stream = TcpStream::connect(addr).await.unwrap();
        let (mut socket, answer) = client_async(url, stream).await.unwrap();
        assert_eq!(answer.status(), 101);
        let messages = [Message::text("hello"), Message::binary(vec![7; 1 << 20]), Message::text("")];
        for message in messages {
            socket.send(message.clone()).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), message);
        }
        socket.close(None).await.unwrap();
        // The server's own close, and then the end.
        assert!(socket.next().await.unwrap().unwrap().is_close());
        assert!(socket.next().await.is_none());
        assert_eq!(server.await.unwrap(), 3);
    });
}
