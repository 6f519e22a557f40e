terraform {
  encryption {
    method "external" "m" {
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
