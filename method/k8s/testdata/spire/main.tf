# Group example, target all. Written by yuba from the group file; do not edit.
terraform {
  required_providers {
    kubernetes = {
      source = "fediversity/kubernetes"
    }
    oci = {
      source = "fediversity/oci"
    }
    random = {
      source = "hashicorp/random"
    }
    spire = {
      source = "fediversity/spire"
    }
  }

  backend "http" {}
}

# The private key comes from SSH_PRIVATE_KEY_FILE; SSH_USER and SSH_NODES come before what is said here.
provider "spire" {
  host      = "spire.example.org"
  port      = 2222
  user      = "yuba"
  host_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFWoAOpUoJzCmlP3TxjVNAyUJGuuYZNidIqF2WhhfB5P"]
  options = {
    ConnectTimeout      = "10"
    ServerAliveInterval = "15"
  }
}

# Read while planning: machine ID and trust bundle of the spire node.
data "spire_server" "this" {
  trust_domain = "fediversity"
}

# Read while planning: without the RuntimeClass there is no plan, and nothing is pushed.
data "kubernetes_runtime_class" "this" {
  name = "systemd"
}

locals {
  images = tomap({
    "0-db" = {
      source     = "/images/db.tar"
      repository = "registry.example:5000/yuba/fediversity/0-db"
      tag        = "hm1v6r2p"
    }
    web = {
      source     = "/srv/images/web.tar"
      repository = "registry.example:5000/yuba/fediversity/web"
      tag        = "5kz0fnr8"
    }
  })
  tags    = tomap({ for name, image in local.images : name => image.tag })
  digests = { for name, image in oci_image.node : name => image.digest }
  missing = ephemeral.oci_manifests.node.missing
}

# One block for all images: an object's state lists every resource that it waits for.
resource "oci_image" "node" {
  for_each   = local.tags
  source     = local.images[each.key].source
  repository = local.images[each.key].repository
  tag        = each.value

  lifecycle {
    create_before_destroy = true
  }
}

# Read again when applying, after all pushes: no pod is replaced for an image that has gone since.
ephemeral "oci_manifests" "node" {
  references = { for name, image in oci_image.node : name => image.id }
  depends_on = [oci_image.node]
}

# Nothing changes in the cluster, and nothing leaves it, before all images are pushed.
provider "kubernetes" {
  after       = true ? 0 : length(oci_image.node)
  timeout     = "10m0s"
  persistence = "20s"
}

resource "kubernetes_object" "namespace" {
  manifest = {
    apiVersion = "v1"
    kind       = "Namespace"
    metadata = {
      name = "fediversity"
      labels = {
        "app.kubernetes.io/instance"   = "fediversity"
        "app.kubernetes.io/managed-by" = "yuba"
        "app.kubernetes.io/part-of"    = "example"
      }
    }
  }
  depends_on = [data.kubernetes_runtime_class.this]
}

# The pods get connections from pods of this namespace only.
resource "kubernetes_object" "network_policy" {
  manifest = {
    apiVersion = "networking.k8s.io/v1"
    kind       = "NetworkPolicy"
    metadata = {
      name      = "same-namespace"
      namespace = "fediversity"
      labels = {
        "app.kubernetes.io/instance"   = "fediversity"
        "app.kubernetes.io/managed-by" = "yuba"
        "app.kubernetes.io/part-of"    = "example"
      }
    }
    spec = {
      podSelector = {}
      policyTypes = ["Ingress"]
      ingress = [
        {
          from = [
            {
              podSelector = {}
            },
          ]
        },
      ]
    }
  }
  depends_on = [kubernetes_object.namespace]
}

# What the SPIRE server may see in the cluster, and what the pods know of it.
locals {
  spire = {
    account = {
      apiVersion = "v1"
      kind       = "ServiceAccount"
      metadata = {
        name      = "spire-server"
        namespace = "fediversity"
        labels = {
          "app.kubernetes.io/instance"   = "fediversity"
          "app.kubernetes.io/managed-by" = "yuba"
          "app.kubernetes.io/part-of"    = "example"
        }
      }
      automountServiceAccountToken = false
    }
    role = {
      apiVersion = "rbac.authorization.k8s.io/v1"
      kind       = "Role"
      metadata = {
        name      = "spire-server"
        namespace = "fediversity"
        labels = {
          "app.kubernetes.io/instance"   = "fediversity"
          "app.kubernetes.io/managed-by" = "yuba"
          "app.kubernetes.io/part-of"    = "example"
        }
      }
      rules = [
        {
          apiGroups = [""]
          resources = ["pods"]
          verbs     = ["get"]
        },
      ]
    }
    cluster_role = {
      apiVersion = "rbac.authorization.k8s.io/v1"
      kind       = "ClusterRole"
      metadata = {
        name = "yuba:fediversity:spire-server"
        labels = {
          "app.kubernetes.io/instance"   = "fediversity"
          "app.kubernetes.io/managed-by" = "yuba"
          "app.kubernetes.io/part-of"    = "example"
        }
      }
      rules = [
        {
          apiGroups = ["authentication.k8s.io"]
          resources = ["tokenreviews"]
          verbs     = ["create"]
        },
        {
          apiGroups = [""]
          resources = ["nodes"]
          verbs     = ["get"]
        },
      ]
    }
    agent = {
      apiVersion = "v1"
      kind       = "ConfigMap"
      metadata = {
        name      = "spire-agent"
        namespace = "fediversity"
        labels = {
          "app.kubernetes.io/instance"   = "fediversity"
          "app.kubernetes.io/managed-by" = "yuba"
          "app.kubernetes.io/part-of"    = "example"
        }
      }
      data = {
        "bundle.pem" = data.spire_server.this.bundle
        server       = "spire.example.org"
        trust-domain = "fediversity"
      }
    }
  }
  spire_bindings = {
    role = {
      apiVersion = "rbac.authorization.k8s.io/v1"
      kind       = "RoleBinding"
      metadata = {
        name      = "spire-server"
        namespace = "fediversity"
        labels = {
          "app.kubernetes.io/instance"   = "fediversity"
          "app.kubernetes.io/managed-by" = "yuba"
          "app.kubernetes.io/part-of"    = "example"
        }
      }
      roleRef = {
        apiGroup = "rbac.authorization.k8s.io"
        kind     = "Role"
        name     = "spire-server"
      }
      subjects = [
        {
          kind      = "ServiceAccount"
          name      = "spire-server"
          namespace = "fediversity"
        },
      ]
    }
    cluster_role = {
      apiVersion = "rbac.authorization.k8s.io/v1"
      kind       = "ClusterRoleBinding"
      metadata = {
        name = "yuba:fediversity:spire-server"
        labels = {
          "app.kubernetes.io/instance"   = "fediversity"
          "app.kubernetes.io/managed-by" = "yuba"
          "app.kubernetes.io/part-of"    = "example"
        }
      }
      roleRef = {
        apiGroup = "rbac.authorization.k8s.io"
        kind     = "ClusterRole"
        name     = "yuba:fediversity:spire-server"
      }
      subjects = [
        {
          kind      = "ServiceAccount"
          name      = "spire-server"
          namespace = "fediversity"
        },
      ]
    }
  }
}

resource "kubernetes_object" "spire" {
  for_each   = local.spire
  manifest   = each.value
  depends_on = [kubernetes_object.namespace]
}

resource "kubernetes_object" "spire_binding" {
  for_each   = local.spire_bindings
  manifest   = each.value
  depends_on = [kubernetes_object.spire]
}

# What the spire node has of the namespace is taken back when no pod needs it any more.
resource "spire_namespace" "this" {
  name       = "fediversity"
  depends_on = [kubernetes_object.spire_binding]
}

# The spire node knows the nodes before their pods start, and until those have ended.
resource "spire_handoff" "this" {
  machine_id = data.spire_server.this.machine_id
  namespace  = spire_namespace.this.name
  nodes      = ["0-db", "web"]

  lifecycle {
    replace_triggered_by = [kubernetes_object.spire["account"].uid]
  }
}

# What the pods of all nodes have in common.
locals {
  pod = {
    readinessProbe = {
      exec = {
        command = ["systemctl", "is-system-running"]
      }
      periodSeconds  = 5
      timeoutSeconds = 5
    }
    lifecycle = {
      preStop = {
        exec = {
          command = ["systemctl", "start", "--no-block", "--job-mode=replace-irreversibly", "halt.target"]
        }
      }
    }
    volumeMounts = [
      {
        name      = "state"
        mountPath = "/var/lib"
      },
      {
        name      = "run"
        mountPath = "/run"
      },
      {
        name      = "run-lock"
        mountPath = "/run/lock"
      },
      {
        name      = "tmp"
        mountPath = "/tmp"
      },
      {
        name      = "spire"
        mountPath = "/run/yuba/spire"
        readOnly  = true
      },
    ]
    volumes = [
      {
        name = "run"
        emptyDir = {
          medium    = "Memory"
          sizeLimit = "256Mi"
        }
      },
      {
        name = "run-lock"
        emptyDir = {
          medium    = "Memory"
          sizeLimit = "8Mi"
        }
      },
      {
        name = "tmp"
        emptyDir = {
          medium    = "Memory"
          sizeLimit = "1Gi"
        }
      },
      {
        name = "spire"
        projected = {
          defaultMode = 256
          sources = [
            {
              serviceAccountToken = {
                audience          = "spire-server"
                expirationSeconds = 3600
                path              = "token"
              }
            },
            {
              configMap = {
                name = "spire-agent"
                items = [
                  {
                    key  = "bundle.pem"
                    path = "bundle.pem"
                    mode = 292
                  },
                ]
              }
            },
            {
              downwardAPI = {
                items = [
                  {
                    path = "namespace"
                    fieldRef = {
                      fieldPath = "metadata.namespace"
                    }
                  },
                ]
              }
            },
          ]
        }
      },
    ]
  }
}

# Node 0-db
resource "random_uuid" "node_0-db" {}

resource "kubernetes_object" "claim_0-db" {
  manifest = {
    apiVersion = "v1"
    kind       = "PersistentVolumeClaim"
    metadata = {
      name      = "0-db-state"
      namespace = "fediversity"
      labels = {
        "app.kubernetes.io/instance"   = "fediversity"
        "app.kubernetes.io/managed-by" = "yuba"
        "app.kubernetes.io/name"       = "0-db"
        "app.kubernetes.io/part-of"    = "example"
      }
    }
    spec = {
      accessModes      = ["ReadWriteOnce"]
      storageClassName = "fast"
      resources = {
        requests = {
          storage = "2Ti"
        }
      }
    }
  }
  depends_on = [kubernetes_object.namespace]
}

resource "kubernetes_object" "account_0-db" {
  manifest = {
    apiVersion = "v1"
    kind       = "ServiceAccount"
    metadata = {
      name      = "node-0-db"
      namespace = "fediversity"
      labels = {
        "app.kubernetes.io/instance"   = "fediversity"
        "app.kubernetes.io/managed-by" = "yuba"
        "app.kubernetes.io/name"       = "0-db"
        "app.kubernetes.io/part-of"    = "example"
      }
    }
    automountServiceAccountToken = false
  }
  depends_on = [kubernetes_object.namespace]
}

resource "kubernetes_object" "deployment_0-db" {
  manifest = {
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata = {
      name      = "0-db"
      namespace = "fediversity"
      labels = {
        "app.kubernetes.io/instance"   = "fediversity"
        "app.kubernetes.io/managed-by" = "yuba"
        "app.kubernetes.io/name"       = "0-db"
        "app.kubernetes.io/part-of"    = "example"
      }
    }
    spec = {
      replicas = 1
      strategy = {
        type = "Recreate"
      }
      selector = {
        matchLabels = {
          "app.kubernetes.io/name" = "0-db"
        }
      }
      template = {
        metadata = {
          labels = {
            "app.kubernetes.io/instance"   = "fediversity"
            "app.kubernetes.io/managed-by" = "yuba"
            "app.kubernetes.io/name"       = "0-db"
            "app.kubernetes.io/part-of"    = "example"
          }
        }
        spec = {
          runtimeClassName              = "systemd"
          hostUsers                     = false
          hostname                      = "0-db"
          serviceAccountName            = "node-0-db"
          serviceAccount                = "node-0-db"
          automountServiceAccountToken  = false
          enableServiceLinks            = false
          terminationGracePeriodSeconds = 120
          containers = [
            {
              name    = "node"
              image   = "registry.example:5000/yuba/fediversity/0-db@${local.digests["0-db"]}"
              command = ["/sbin/init"]
              env = [
                {
                  name  = "container"
                  value = "oci"
                },
                {
                  name  = "container_uuid"
                  value = random_uuid.node_0-db.result
                },
                {
                  name  = "PATH"
                  value = "/run/current-system/sw/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
                },
              ]
              tty            = true
              readinessProbe = local.pod.readinessProbe
              lifecycle      = local.pod.lifecycle
              volumeMounts   = local.pod.volumeMounts
            },
          ]
          volumes = concat([
            {
              name = "state"
              persistentVolumeClaim = {
                claimName = "0-db-state"
              }
            },
          ], local.pod.volumes)
        }
      }
    }
  }
  unless     = local.missing["0-db"]
  depends_on = [kubernetes_object.network_policy, kubernetes_object.claim_0-db, kubernetes_object.account_0-db, spire_handoff.this]

  lifecycle {
    replace_triggered_by = [kubernetes_object.claim_0-db.uid]
  }
}

resource "kubernetes_rollout" "node_0-db" {
  namespace  = "fediversity"
  name       = "0-db"
  uid        = kubernetes_object.deployment_0-db.uid
  generation = kubernetes_object.deployment_0-db.generation
  timeout    = "10m0s"
}

# Node web
resource "random_uuid" "node_web" {}

resource "kubernetes_object" "claim_web" {
  manifest = {
    apiVersion = "v1"
    kind       = "PersistentVolumeClaim"
    metadata = {
      name      = "web-state"
      namespace = "fediversity"
      labels = {
        "app.kubernetes.io/instance"   = "fediversity"
        "app.kubernetes.io/managed-by" = "yuba"
        "app.kubernetes.io/name"       = "web"
        "app.kubernetes.io/part-of"    = "example"
      }
    }
    spec = {
      accessModes      = ["ReadWriteOnce"]
      storageClassName = "fast"
      resources = {
        requests = {
          storage = "10Gi"
        }
      }
    }
  }
  depends_on = [kubernetes_object.namespace]
}

resource "kubernetes_object" "account_web" {
  manifest = {
    apiVersion = "v1"
    kind       = "ServiceAccount"
    metadata = {
      name      = "node-web"
      namespace = "fediversity"
      labels = {
        "app.kubernetes.io/instance"   = "fediversity"
        "app.kubernetes.io/managed-by" = "yuba"
        "app.kubernetes.io/name"       = "web"
        "app.kubernetes.io/part-of"    = "example"
      }
    }
    automountServiceAccountToken = false
  }
  depends_on = [kubernetes_object.namespace]
}

resource "kubernetes_object" "deployment_web" {
  manifest = {
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata = {
      name      = "web"
      namespace = "fediversity"
      labels = {
        "app.kubernetes.io/instance"   = "fediversity"
        "app.kubernetes.io/managed-by" = "yuba"
        "app.kubernetes.io/name"       = "web"
        "app.kubernetes.io/part-of"    = "example"
      }
    }
    spec = {
      replicas = 1
      strategy = {
        type = "Recreate"
      }
      selector = {
        matchLabels = {
          "app.kubernetes.io/name" = "web"
        }
      }
      template = {
        metadata = {
          labels = {
            "app.kubernetes.io/instance"   = "fediversity"
            "app.kubernetes.io/managed-by" = "yuba"
            "app.kubernetes.io/name"       = "web"
            "app.kubernetes.io/part-of"    = "example"
          }
        }
        spec = {
          runtimeClassName              = "systemd"
          hostUsers                     = false
          hostname                      = "web"
          serviceAccountName            = "node-web"
          serviceAccount                = "node-web"
          automountServiceAccountToken  = false
          enableServiceLinks            = false
          terminationGracePeriodSeconds = 120
          containers = [
            {
              name    = "node"
              image   = "registry.example:5000/yuba/fediversity/web@${local.digests["web"]}"
              command = ["/sbin/init"]
              env = [
                {
                  name  = "container"
                  value = "oci"
                },
                {
                  name  = "container_uuid"
                  value = random_uuid.node_web.result
                },
                {
                  name  = "PATH"
                  value = "/run/current-system/sw/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
                },
              ]
              tty            = true
              readinessProbe = local.pod.readinessProbe
              lifecycle      = local.pod.lifecycle
              volumeMounts   = local.pod.volumeMounts
              resources = {
                requests = {
                  cpu    = "100m"
                  memory = "256Mi"
                }
                limits = {
                  memory = "1Gi"
                }
              }
            },
          ]
          volumes = concat([
            {
              name = "state"
              persistentVolumeClaim = {
                claimName = "web-state"
              }
            },
          ], local.pod.volumes)
        }
      }
    }
  }
  unless     = local.missing["web"]
  depends_on = [kubernetes_object.network_policy, kubernetes_object.claim_web, kubernetes_object.account_web, spire_handoff.this]

  lifecycle {
    replace_triggered_by = [kubernetes_object.claim_web.uid]
  }
}

resource "kubernetes_rollout" "node_web" {
  namespace  = "fediversity"
  name       = "web"
  uid        = kubernetes_object.deployment_web.uid
  generation = kubernetes_object.deployment_web.generation
  timeout    = "10m0s"
}

output "namespace" {
  description = "Namespace of the nodes"
  value       = "fediversity"
}

output "nodes" {
  description = "Names of the nodes"
  value       = ["0-db", "web"]
}

output "images" {
  description = "Image of each node, by digest"
  value = {
    "0-db" = "registry.example:5000/yuba/fediversity/0-db@${local.digests["0-db"]}"
    web    = "registry.example:5000/yuba/fediversity/web@${local.digests["web"]}"
  }
}
