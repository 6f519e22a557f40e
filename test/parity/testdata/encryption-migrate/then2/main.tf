terraform {
  encryption {
    key_provider "external" "m" {
      command = ["sh", "key.sh", "old"]
    }
    method "aes_gcm" "m" {
      keys = key_provider.external.m
    }
    plan {
      method   = method.aes_gcm.m
      enforced = true
    }
    state {
      method   = method.aes_gcm.m
      enforced = true
    }
  }
}

resource "terraform_data" "a" {
  input = "z"
}

output "a" {
  value = terraform_data.a.output
}
