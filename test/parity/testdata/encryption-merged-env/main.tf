terraform {
  encryption {
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.m
    }
    key_provider "pbkdf2" "m" {
      iterations = 300000
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
