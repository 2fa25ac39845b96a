/** The six manifests of a new product, small and valid once its table and columns are filled in. */
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'

/** Writes the files into `folder`; refuses to overwrite any. */
export async function initProduct(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true })
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9_]/g, '_')
  for (const [file, text] of Object.entries(filesFor(name))) {
    await writeFile(join(folder, `${file}.yaml`), text, { flag: 'wx' })
  }
  return `Six manifests are in ${folder}. Fill in connection, table and columns, then: sluice product plan ${folder} --tenant T --version 1.0.0`
}

function filesFor(name: string): Readonly<Record<string, string>> {
  const head = (kind: string) => `apiVersion: svc/v1\nkind: ${kind}\n`
  return {
    product: `${head('Product')}name: ${name}\nnamespace: main\narchetype: source_aligned\ndescription: ""\nclassification: internal\n`,
    inputs: `${head('Inputs')}inputs:\n  - name: ${name}\n    connection: my_connection\n    table: public.${name}\n    mode: full\n`,
    output: `${head('Output')}format: iceberg\nschema:\n  - { name: id, type: long, role: identity, nullable: false }\n  - { name: name, type: string, classification: pii.name }\n`,
    quality: `${head('Quality')}checks:\n  - name: id_is_unique\n    unique: [id]\n`,
    serving: `${head('Serving')}endpoints:\n  - type: lookup\n  - type: analytics\n`,
    compute: `${head('Compute')}engine: auto\ntrigger: on_ingestion\n`,
  }
}
