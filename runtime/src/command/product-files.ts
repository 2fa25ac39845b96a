/** The six manifests of a product in a folder: read, and written to begin with. */
import { access, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { UsageError } from './arguments.ts'

const PARTS = ['product', 'inputs', 'output', 'quality', 'serving', 'compute']

/** Something wrong in a manifest, as the server and the checks say it. */
export interface ProblemLine {
  readonly manifest: string
  readonly line: number
  readonly column: number
  readonly message: string
  readonly hint?: string
}

export function problemLine({ manifest, line, column, message, hint }: ProblemLine): string {
  return `${manifest}.yaml:${line}:${column} ${message}${hint ? ` (${hint})` : ''}`
}

/** The texts of the manifests that are there. */
export async function readManifests(folder: string): Promise<Readonly<Record<string, string>>> {
  await access(folder).catch(() => {
    throw new UsageError(`there is no folder ${folder}`)
  })
  const files = (await readdir(folder)).filter((file) => file.endsWith('.yaml'))
  const named = files.filter((file) => PARTS.includes(basename(file, '.yaml')))
  const texts = await Promise.all(
    named.map(async (file) => [basename(file, '.yaml'), await readFile(join(folder, file), 'utf8')] as const),
  )
  return Object.fromEntries(texts)
}

/** Writes the files into `folder`; refuses to overwrite any. */
export async function initProduct(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true })
  const files = await readdir(folder)
  const present = PARTS.map((part) => `${part}.yaml`).find((file) => files.includes(file))
  if (present) throw new UsageError(`${join(folder, present)} is there already; name a new folder`)
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9_]/g, '_')
  for (const [file, text] of Object.entries(filesFor(name))) {
    await writeFile(join(folder, `${file}.yaml`), text, { flag: 'wx' })
  }
  return `Six manifests are in ${folder}. Fill in connection, table and columns, then: npx sluice product plan ${folder} --tenant T --version 1.0.0`
}

function filesFor(name: string): Readonly<Record<string, string>> {
  const head = (kind: string) => `apiVersion: svc/v1\nkind: ${kind}\n`
  return {
    product: `${head('Product')}name: ${name}\nnamespace: core\narchetype: source_aligned\ndescription: ""\nclassification: internal\n`,
    inputs: `${head('Inputs')}inputs:\n  - name: ${name}\n    connection: my_connection\n    table: public.${name}\n    mode: full\n`,
    output: `${head('Output')}format: iceberg\nschema:\n  - { name: id, type: long, role: identity, nullable: false }\n  - { name: name, type: string, classification: pii.name }\n`,
    quality: `${head('Quality')}checks:\n  - name: id_is_unique\n    unique: [id]\n`,
    serving: `${head('Serving')}endpoints:\n  - type: lookup\n  - type: analytics\n`,
    compute: `${head('Compute')}engine: auto\ntrigger: on_ingestion\n`,
  }
}
