terraform {
  encryption {
    key_provider "pbkdf2" "renamed" {
      passphrase               = "a long passphrase"
      iterations               = 200000
      encrypted_metadata_alias = "shared"
    }
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.renamed
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
  input = "y"
}

output "a" {
  value = terraform_data.a.output
}
