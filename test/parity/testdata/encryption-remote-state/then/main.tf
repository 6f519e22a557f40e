terraform {
  encryption {
    key_provider "external" "m" {
      command = ["sh", "key.sh", "old"]
    }
    method "aes_gcm" "m" {
      keys = key_provider.external.m
    }
    plan {
      method   = method.aes_gcm.m
      enforced = true
    }
    state {
      method   = method.aes_gcm.m
      enforced = true
    }
    remote_state_data_sources {
      default {
        method = method.aes_gcm.m
      }
      remote_state_data_source "named" {
        method = method.aes_gcm.m
      }
    }
  }
}

terraform {
  backend "http" {}
}

data "terraform_remote_state" "named" {
  backend = "http"
  config  = {}
}

data "terraform_remote_state" "other" {
  backend = "http"
  config  = {}
}

output "read" {
  value = [data.terraform_remote_state.named.outputs, data.terraform_remote_state.other.outputs]
}

resource "terraform_data" "a" {
  input = "x"
}

output "a" {
  value = terraform_data.a.output
}
