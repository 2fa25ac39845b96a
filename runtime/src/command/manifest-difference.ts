/** Where manifests of a folder and those deployed say something else, by file and key. */

import { canonical } from '../manifest/digest.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { Json, ManifestName } from '../manifest/problem.ts'
import { MANIFEST_NAMES } from '../manifest/problem.ts'
import { readYaml } from '../manifest/read-yaml.ts'

export interface Difference {
  readonly manifest: ManifestName
  /** `schema[email].classification`; empty: the whole file. */
  readonly key: string
  /** Undefined where it is not there. */
  readonly folder: Json | undefined
  readonly deployed: Json | undefined
}

interface Side {
  readonly texts: Readonly<Record<string, string>>
  /** What they mean; null where this machine cannot tell. */
  readonly meaning: ManifestSet | null
}

/** Empty where both mean the same, in whatever words. */
export function differences(folder: Side, deployed: Side): readonly Difference[] {
  return MANIFEST_NAMES.flatMap((manifest) => {
    const [own, other] = [folder.meaning?.[manifest], deployed.meaning?.[manifest]]
    if (own !== undefined && other !== undefined && canonical(own) === canonical(other)) return []
    const [left, right] = [valueOf(manifest, folder.texts), valueOf(manifest, deployed.texts)]
    return compare(left, right, '').map((one) => ({ manifest, ...one }))
  })
}

function valueOf(manifest: ManifestName, texts: Side['texts']): Json | undefined {
  const reading = readYaml(manifest, Buffer.from(texts[manifest] ?? ''))
  return reading.ok ? reading.file.value : undefined
}

type Found = Omit<Difference, 'manifest'>

function compare(folder: Json | undefined, deployed: Json | undefined, key: string): readonly Found[] {
  if (canonical(folder) === canonical(deployed)) return []
  const [own, other] = [membersOf(folder), membersOf(deployed)]
  if (own === null || other === null || own.isList !== other.isList) return [{ key, folder, deployed }]
  const names = [...new Set([...own.members.keys(), ...other.members.keys()])]
  const found = names.flatMap((name) => {
    const inner = own.isList ? `${key}[${name}]` : key === '' ? name : `${key}.${name}`
    return compare(own.members.get(name), other.members.get(name), inner)
  })
  // The same members in another order.
  return found.length > 0 ? found : [{ key, folder, deployed }]
}

interface Members {
  readonly isList: boolean
  readonly members: ReadonlyMap<string, Json>
}

/** Of a list by the names that its members have, so that one more in the middle is one difference. */
function membersOf(value: Json | undefined): Members | null {
  if (typeof value !== 'object' || value === null) return null
  if (!Array.isArray(value)) return { isList: false, members: new Map(Object.entries(value)) }
  const names = value.map(memberName)
  const isNamed = names.every((name) => name !== null) && new Set(names).size === names.length
  return isNamed ? { isList: true, members: new Map(value.map((one, at) => [names[at] as string, one])) } : null
}

function memberName(member: Json): string | null {
  if (typeof member !== 'object' || member === null || Array.isArray(member)) return null
  const { name, type } = member as { readonly name?: unknown; readonly type?: unknown }
  return typeof name === 'string' ? name : typeof type === 'string' ? type : null
}
