terraform {
  encryption {
    key_provider "external" "old" {
      command = ["sh", "key.sh", "old"]
    }
    method "aes_gcm" "old" {
      keys = key_provider.external.old
    }
    plan {
      method   = method.aes_gcm.old
      enforced = true
    }
    state {
      method   = method.aes_gcm.old
      enforced = true
    }
  }
}

resource "terraform_data" "a" {
  input = "x"
}

output "a" {
  value = terraform_data.a.output
}
