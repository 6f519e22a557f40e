terraform {
  encryption {
    key_provider "external" "old" {
      command = ["sh", "key.sh", "old"]
    }
    method "aes_gcm" "old" {
      keys = key_provider.external.old
    }
    key_provider "external" "new" {
      command = ["sh", "key.sh", "new"]
    }
    method "aes_gcm" "new" {
      keys = key_provider.external.new
    }
    plan {
      method   = method.aes_gcm.new
      enforced = true
      fallback {
        method = method.aes_gcm.old
      }
    }
    state {
      method   = method.aes_gcm.new
      enforced = true
      fallback {
        method = method.aes_gcm.old
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
