terraform {
  encryption {
    method "unencrypted" "u" {}
    key_provider "external" "m" {
      command = ["sh", "key.sh", "old"]
    }
    method "aes_gcm" "m" {
      keys = key_provider.external.m
    }
    state {
      method = method.aes_gcm.m
      fallback {
        method = method.unencrypted.u
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
