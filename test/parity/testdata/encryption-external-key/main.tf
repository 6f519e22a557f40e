terraform {
  encryption {
    key_provider "external" "k" {
      command = ["sh", "key.sh"]
    }
    method "external" "m" {
      keys            = key_provider.external.k
      encrypt_command = ["sh", "encrypt.sh"]
      decrypt_command = ["sh", "decrypt.sh"]
    }
    plan {
      method   = method.external.m
      enforced = true
    }
    state {
      method   = method.external.m
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
