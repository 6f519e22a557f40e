terraform {
  encryption {
    key_provider "pbkdf2" "k" {
      passphrase = "a passphrase that is long enough"
      iterations = 200000
    }
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.k
    }
    method "unencrypted" "u" {}
    plan {
      method = method.aes_gcm.m
    }
    state {
      method = method.unencrypted.u
      fallback {
        method = method.aes_gcm.m
      }
    }
  }
}

resource "terraform_data" "a" {
  input = "x"
}
