terraform {
  encryption {
    key_provider "external" "new" {
      command = ["sh", "key.sh", "new"]
    }
    method "aes_gcm" "new" {
      keys = key_provider.external.new
    }
    plan {
      method   = method.aes_gcm.new
      enforced = true
    }
    state {
      method   = method.aes_gcm.new
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
