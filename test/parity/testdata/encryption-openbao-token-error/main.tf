terraform {
  encryption {
    key_provider "openbao" "k" {
      key_name = "yuba"
      token    = "not-the-token"
    }
    method "aes_gcm" "m" {
      keys = key_provider.openbao.k
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
