/** `sluice product export PRODUCT|FOLDER --odcs`: the contract on standard output, what it does not say on the other. */
import { stat } from 'node:fs/promises'
import { stringify } from 'yaml'
import { MANIFEST_NAMES, type ManifestName } from '../manifest/problem.ts'
import { readYaml } from '../manifest/read-yaml.ts'
import { UsageError } from './arguments.ts'
import { type CommandCall, word } from './command.ts'
import { manifestParser } from './lint.ts'
import { type ContractFacts, contractOf, type ManifestValues } from './odcs/writing.ts'
import { pathOf, problemLine, readManifests } from './product-files.ts'
import { plain } from './text-table.ts'

type Texts = Readonly<Record<string, string>>

export async function exportCommand(call: CommandCall): Promise<unknown> {
  const what = word(call, 0, 'PRODUCT|FOLDER')
  if (!call.args.flags['odcs']) throw new UsageError('--odcs is missing: it names the standard')
  const isFolder = await stat(what).then(
    (facts) => facts.isDirectory(),
    () => false,
  )
  const { texts, facts } = isFolder ? await ofFolder(call, what) : await ofProduct(call, what)
  const { contract, lost } = contractOf(valuesOf(texts), facts)
  for (const one of lost) console.error(`not said by the contract: ${plain(one)}`)
  return call.args.flags['json'] ? contract : contractText(contract)
}

export const contractText = (contract: unknown): string =>
  stringify(contract, { lineWidth: 0, aliasDuplicateObjects: false }).trimEnd()

interface Exported {
  readonly texts: Texts
  readonly facts: ContractFacts
}

async function ofFolder(call: CommandCall, folder: string): Promise<Exported> {
  const texts = await readManifests(folder)
  const parsed = (await manifestParser(await call.config()))(texts)
  if (!parsed.ok) throw new Error(['the manifests have problems', ...parsed.problems.map(problemLine)].join('\n'))
  return { texts, facts: { version: call.args.flags['version'] ?? '1.0.0', isInService: false, url: null } }
}

async function ofProduct(call: CommandCall, name: string): Promise<Exported> {
  if (call.args.flags['version'] !== undefined) throw new UsageError('--version is of a folder’s contract')
  const client = await call.client()
  const product = (await client.request('GET', pathOf(name))) as {
    readonly name: string
    readonly namespace: string
    readonly current_version: string | null
  }
  const { current_version: version } = product
  if (version === null) throw new Error(`${name} is not in service: it keeps no contract yet`)
  const path = pathOf(`${product.namespace}.${product.name}`)
  const kept = (await client.request('GET', `${path}/manifests/${encodeURIComponent(version)}`)) as {
    readonly manifests: Texts
  }
  return { texts: kept.manifests, facts: { version, isInService: true, url: `${client.url}${path}` } }
}

/** Of files that were checked as a whole. */
export function valuesOf(texts: Texts): ManifestValues {
  const read = (name: ManifestName): unknown => {
    const reading = readYaml(name, Buffer.from(texts[name] ?? ''))
    if (!reading.ok) throw new Error(reading.problems.map(problemLine).join('\n'))
    return reading.file.value
  }
  return Object.fromEntries(MANIFEST_NAMES.map((name) => [name, read(name)])) as unknown as ManifestValues
}
