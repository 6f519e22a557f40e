terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

locals {
  rules = [{ from = "b", key = "k2" }, { from = "c", key = null }, { from = "d", key = null }]
}

resource "lab_thing" "a" {
  name = "a"
  dynamic "rule" {
    for_each = local.rules
    content {
      from = rule.value.from
      key  = rule.value.key
    }
  }
  dynamic "port" {
    for_each = toset([443, 8080])
    content {
      number = port.value
    }
  }
  spec = {
    image = "img2"
    ports = [1, 3, 4]
  }
  any = { deep = { list = [1, "two", { three = false }] }, text = "a\nb\nc" }
}
