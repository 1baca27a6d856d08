# A certificate request, approved by a user and signed by the cluster's authority.
step 'kubectl create -f - <<Y
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: jane}
spec:
  # Signed by a discarded P-256 key; CN=jane, O=dev, O=ops.
  request: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIbU1JR05BZ0VBTUNzeERUQUxCZ05WQkFNTUJHcGhibVV4RERBS0JnTlZCQW9NQTJSbGRqRU1NQW9HQTFVRQpDZ3dEYjNCek1Ga3dFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRUdiNGZoRUxFK0hIU0E3TVNNTkJqCi9RVU10RTRzeXl5dy9kdE9RRnh0eGtoSG9id2FQOXU2cVhXbHl0TlRld0swaUVrMi9KdWt1bzhuRE5QMVpnUksKUEtBQU1Bb0dDQ3FHU000OUJBTUNBMGdBTUVVQ0lCNEQ2UXR0M0ZjbnkzNUFZcXZINjNGQWN0MStGR2ZLa3JwWApNaTJoM0QyUEFpRUE1RWNNU3lIT3c2UlN5Qy9qbmhaZ3VjTm1tZ01TVkxNZGEwaWZpNmc3NUw0PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K
  signerName: kubernetes.io/kube-apiserver-client
  expirationSeconds: 86400
  usages: [client auth]
Y' 'certificatesigningrequest.certificates.k8s.io/jane created' '!Warning'
step 'kubectl get csr jane' 'kubernetes.io/kube-apiserver-client +kubernetes-admin +24h +Pending'
step 'kubectl certificate approve jane' 'jane approved'
step 'kubectl wait --for=jsonpath="{.status.certificate}" csr/jane --timeout=$WAIT' 'condition met'
step 'kubectl get csr jane' 'Approved,Issued'
step 'kubectl get csr jane -o jsonpath="{.status.certificate}" | base64 -d' '^-----BEGIN CERTIFICATE-----$'
step 'kubectl delete csr jane' 'deleted'
