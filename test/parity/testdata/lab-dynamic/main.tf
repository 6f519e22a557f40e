terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

locals {
  rules = [{ from = "a", key = "k1" }, { from = "b", key = null }]
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
    for_each = toset([80, 443])
    iterator = it
    content {
      number = it.value
    }
  }
  spec = {
    image = "img"
    ports = [1, 2, 3]
  }
  any = { deep = { list = [1, "two", null, { three = true }] } }
}
