terraform {
  encryption {
    key_provider "openbao" "k" {
      key_name = "yuba"
    }
    method "aes_gcm" "m" {
      keys = key_provider.openbao.k
    }
    key_provider "pbkdf2" "p" {
      passphrase = "a new passphrase"
      iterations = 200000
    }
    method "aes_gcm" "p" {
      keys = key_provider.pbkdf2.p
    }
    plan {
      method = method.aes_gcm.p
    }
    state {
      method = method.aes_gcm.p
      fallback {
        method = method.aes_gcm.m
      }
    }
  }
}

resource "terraform_data" "a" {
  input = "y"
}

output "a" {
  value = terraform_data.a.output
}
