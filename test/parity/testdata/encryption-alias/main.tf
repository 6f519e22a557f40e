terraform {
  encryption {
    key_provider "pbkdf2" "m" {
      passphrase               = "a long passphrase"
      iterations               = 200000
      encrypted_metadata_alias = "shared"
    }
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.m
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
  input = "x"
}

output "a" {
  value = terraform_data.a.output
}
