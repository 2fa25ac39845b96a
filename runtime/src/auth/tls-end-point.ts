/** What logins are bound to under TLS: the certificate that the client was shown, by a hash of it. */
import { hash, X509Certificate } from 'node:crypto'

/** Of signatures by these (RFC 3279, RFC 4055, RFC 5758) a certificate's hash; of MD5 and SHA-1 it is SHA-256. */
const END_POINT_HASHES: Readonly<Record<string, string>> = {
  '1.2.840.113549.1.1.4': 'sha256',
  '1.2.840.113549.1.1.5': 'sha256',
  '1.2.840.113549.1.1.11': 'sha256',
  '1.2.840.113549.1.1.12': 'sha384',
  '1.2.840.113549.1.1.13': 'sha512',
  '1.2.840.113549.1.1.14': 'sha224',
  '1.2.840.10045.4.1': 'sha256',
  '1.2.840.10045.4.3.1': 'sha224',
  '1.2.840.10045.4.3.2': 'sha256',
  '1.2.840.10045.4.3.3': 'sha384',
  '1.2.840.10045.4.3.4': 'sha512',
}

/**
 * `tls-server-end-point` of RFC 5929, of the first certificate of a PEM text. Null where its signature is not of one hash
 * that clients agree on (Ed25519, RSASSA-PSS): then nothing is bound to it.
 */
export function tlsEndPoint(certificate: string): Buffer | null {
  const { raw, signatureAlgorithmOid } = new X509Certificate(certificate)
  const algorithm = END_POINT_HASHES[signatureAlgorithmOid ?? '']
  return algorithm === undefined ? null : hash(algorithm, raw, 'buffer')
}
