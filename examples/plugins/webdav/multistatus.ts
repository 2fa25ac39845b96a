/** What a server tells of its resources (RFC 4918, 13). */
import { XMLParser } from 'fast-xml-parser'

export interface Resource {
  /** As the server writes it: an address or a path, with percents. */
  readonly href: string
  readonly isFolder: boolean
  readonly sizeBytes: number
  readonly modifiedAt: Date
}

export const ASK = `<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/></prop></propfind>`

const parser = new XMLParser({
  removeNSPrefix: true,
  parseTagValue: false,
  processEntities: true,
  isArray: (name) => name === 'response' || name === 'propstat',
})

/** Throws where it is no such document: it may have been cut. */
export function resourcesOf(text: string): readonly Resource[] {
  if (!/<\/[\w-]*:?multistatus\s*>\s*$/.test(text)) throw new Error('a list of resources was cut')
  const { multistatus } = parser.parse(text) as { readonly multistatus?: { readonly response?: readonly Json[] } | '' }
  return (multistatus === '' ? [] : (multistatus?.response ?? [])).flatMap(resource)
}

// biome-ignore lint/suspicious/noExplicitAny: a document of others
type Json = any

function resource({ href, propstat = [] }: Json): readonly Resource[] {
  const found = propstat.find(({ status }: Json) => / 200( |$)/.test(String(status)))?.prop
  if (typeof href !== 'string' || found === undefined) return []
  const { resourcetype = '', getcontentlength = '0', getlastmodified = '' } = found
  const isFolder = typeof resourcetype === 'object' && 'collection' in resourcetype
  return [{ href, isFolder, sizeBytes: Number(getcontentlength), modifiedAt: new Date(getlastmodified) }]
}
