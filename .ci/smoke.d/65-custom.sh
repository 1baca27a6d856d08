# A custom kind: defined, used at once with every command, and deleted with its objects.
namespace custom

cat >"$WORK/custom-definition.yaml" <<'Y'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: lamps, singular: lamp, kind: Lamp, shortNames: [lp], categories: [all]}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              description: How it shines.
              required: [watts]
              properties:
                watts: {type: integer, minimum: 1, maximum: 100}
                colour: {type: string, default: white}
                bulbs: {type: integer, default: 1}
            status:
              type: object
              properties: {lit: {type: integer}}
      subresources:
        status: {}
        scale: {specReplicasPath: .spec.bulbs, statusReplicasPath: .status.lit}
      additionalPrinterColumns:
        - {name: Watts, type: integer, jsonPath: .spec.watts}
      selectableFields:
        - jsonPath: .spec.colour
Y
cat >"$WORK/custom-object.yaml" <<'Y'
---
{apiVersion: shop.example.com/v1, kind: Lamp, metadata: {name: desk}, spec: {watts: 5}}
Y

# Without a pause: the kind is served from the revision of its definition.
step 'kubectl apply -f $WORK/custom-definition.yaml && kubectl apply -f $WORK/custom-object.yaml' 'lamps.shop.example.com created' 'desk created'
step 'kubectl wait --for=condition=Established crd/lamps.shop.example.com --timeout=$WAIT' 'condition met'
step 'kubectl get lamps' '^NAME +WATTS' '^desk +5'
step 'kubectl get lp desk -o jsonpath={.spec.colour}' '^white$'
step 'kubectl get all' 'lamp.shop.example.com/desk'
step 'kubectl explain lamp.spec' 'How it shines' 'watts.*-required-'
step 'kubectl explain lamps.spec.watts' '^GROUP: +shop.example.com' '^VERSION: +v1' '^FIELD: watts <integer>' '<empty>'
step 'kubectl explain lamp.metadata.ownerReferences.uid' '^FIELD: uid'
refused 'kubectl explain lamp.spec.nonsense' 'field "nonsense" does not exist'
step 'kubectl get lamps --field-selector spec.colour=white -o name' 'desk'
step 'kubectl scale lamp desk --replicas=3' 'scaled'
step 'kubectl patch lamp desk --subresource=status --type=merge -p "{\"status\":{\"lit\":2}}"' 'patched'
step 'kubectl get lamp desk -o jsonpath="{.spec.bulbs} {.status.lit} {.metadata.generation}"' '^3 2 2$'
step 'kubectl apply --server-side --force-conflicts --field-manager=other -f - <<Y
---
{apiVersion: shop.example.com/v1, kind: Lamp, metadata: {name: desk}, spec: {watts: 5, colour: red}}
Y' 'serverside-applied'
refused 'kubectl patch lamp desk --type=merge -p "{\"spec\":{\"watts\":500}}"' 'spec.watts in body should be less than or equal to 100'
refused 'kubectl apply -f - <<Y
---
{apiVersion: shop.example.com/v1, kind: Lamp, metadata: {name: odd}, spec: {watts: 5, volts: 12}}
Y' 'unknown field "spec.volts"'
refused 'kubectl get lamps --field-selector spec.watts=5' 'field label not supported: spec.watts'
step 'kubectl describe lamp desk' '^Name: +desk' 'Watts: +5'
step 'kubectl delete crd lamps.shop.example.com --timeout=$WAIT' 'deleted'
refused 'kubectl get lamps' "the server doesn.t have a resource type|could not find the requested resource"
