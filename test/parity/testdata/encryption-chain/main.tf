terraform {
  encryption {
    key_provider "external" "k" {
      command = ["sh", "key.sh"]
    }
    key_provider "pbkdf2" "p" {
      chain      = key_provider.external.k
      iterations = 200000
    }
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.p
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
