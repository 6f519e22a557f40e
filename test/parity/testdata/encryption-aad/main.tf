terraform {
  encryption {
    key_provider "pbkdf2" "m" {
      passphrase    = "a long passphrase"
      iterations    = 200000
      key_length    = 16
      salt_length   = 16
      hash_function = "sha256"
    }
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.m
      aad  = [1, 2, 3]
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
