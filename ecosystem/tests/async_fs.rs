//! Files by `async-fs`, which reads and writes on threads of its own.

use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::block_on;
use mainspring_ecosystem::watchdog;

#[test]
fn async_fs_writes_reads_and_removes_a_file() {
    let _watchdog = watchdog();
    let directory = std::env::temp_dir().join(format!("mainspring-ecosystem-{}", std::process::id()));
    block_on(async {
        async_fs::create_dir_all(&directory).await.unwrap();
        let path = directory.join("file");
        let mut file = async_fs::File::create(&path).await.unwrap();
        for part in 0..100_u8 {
            file.write_all(&[part; 10_000]).await.unwrap();
        }
        file.sync_all().await.unwrap();
        drop(file);

        let mut content = Vec::new();
        async_fs::File::open(&path).await.unwrap().read_to_end(&mut content).await.unwrap();
        assert_eq!(content, (0..100_u8).flat_map(|part| [part; 10_000]).collect::<Vec<u8>>());
        async_fs::remove_dir_all(&directory).await.unwrap();
        assert!(async_fs::metadata(&path).await.is_err());
    });
}
