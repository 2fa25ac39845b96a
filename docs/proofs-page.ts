/** The matrix of stores and what is proved of them, made from their certificates. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  CERTIFICATE_SUFFIX,
  type CertificateBody,
  capabilityNames,
  readCertificate,
  type ServingPlugin,
} from '@sluice/sdk'
import { table } from './table.ts'

const INTRODUCTION = `# What is proved of the plugins

Made by \`node docs/generate.ts\` from the certificates in \`docs/certificates\`, which \`npm run certify\` makes by running
the conformance suite; not to be edited. \`yes\`: declared, and proved by the certificate. \`declared\`: declared, and no
certificate proves it yet. An empty cell means: not supported.
`

/** Throws where a certificate was changed after it was signed. */
function certificatesIn(folder: string): readonly CertificateBody[] {
  const names = readdirSync(folder).filter((name) => name.endsWith(CERTIFICATE_SUFFIX))
  // The certificate of a plugin, and then those of the same plugin on other servers.
  const stem = (name: string) => name.slice(0, -CERTIFICATE_SUFFIX.length)
  const sorted = names.toSorted((one, other) => (stem(one) < stem(other) ? -1 : 1))
  return sorted.map((name) => {
    const read = readCertificate(readFileSync(join(folder, name), 'utf8'))
    if ('problem' in read) throw new Error(`${name}: ${read.problem}`)
    return read.body
  })
}

/** Stores that are not among the built-in ones are known by their certificates alone. */
export function proofsPage(folder: string, stores: readonly ServingPlugin[]): string {
  const certificates = certificatesIn(folder)
  const declared = new Map(stores.map((store) => [`${store.type} (${store.name})`, capabilityNames(store)]))
  const proofs = new Map<string, CertificateBody>()
  for (const body of certificates) {
    const column = columnOf(body.plugin)
    const isAgain = proofs.has(column)
    proofs.set(isAgain ? `${column} on ${body.server}` : column, body)
    if (isAgain) declared.set(`${column} on ${body.server}`, declared.get(column) ?? [])
  }
  const columns = [...new Set([...declared.keys(), ...proofs.keys()])]
  const of = (column: string) => proofs.get(column)?.proved ?? []
  const lines = [...new Set(columns.flatMap((column) => [...(declared.get(column) ?? []), ...of(column)]))].sort()
  const rows = lines.map((line) => [line, ...columns.map((column) => cell(line, of(column), declared.get(column)))])
  const facts = FACTS.map(([name, fact]) => [name, ...columns.map((column) => factOf(proofs.get(column), fact))])
  return `${INTRODUCTION}\n${table(['', ...columns], [...facts, ...rows])}`
}

function columnOf({ kind, type, name }: CertificateBody['plugin']): string {
  return `${kind === 'connector' ? kind : type} (${name})`
}

const FACTS: readonly (readonly [string, (body: CertificateBody) => string])[] = [
  ['level', ({ level }) => level],
  ['made on', ({ date }) => date ?? 'unknown'],
  ['tried on', ({ server }) => server ?? ''],
  ['SDK, suite', ({ sdk, suite }) => `${sdk}, ${suite}`],
  ['dependencies, by digest', ({ dependencies }) => dependencies?.sha256.slice(0, 12) ?? 'unknown'],
  ['checks that hold', ({ checks }) => String((checks['passed'] ?? 0) + (checks['inverted'] ?? 0))],
  ['waived', ({ waived }) => String(waived.length)],
  ['defective plugins caught by the suite', ({ killRate }) => `${killRate.caught} of ${killRate.of}`],
]

function factOf(body: CertificateBody | undefined, fact: (body: CertificateBody) => string): string {
  return body === undefined ? 'no certificate' : fact(body)
}

function cell(line: string, proved: readonly string[], declared: readonly string[] | undefined): string {
  if (declared === undefined) return proved.includes(line) ? 'yes' : ''
  if (!declared.includes(line)) return ''
  return proved.includes(line) ? 'yes' : 'declared'
}
