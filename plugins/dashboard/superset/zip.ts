/** A ZIP archive of a few small texts, stored as they are: the form in which the dashboard server takes assets. */
import { crc32 } from 'node:zlib'

const LOCAL_HEADER = 0x04034b50
const CENTRAL_HEADER = 0x02014b50
const END = 0x06054b50
const VERSION = 20
const UTF8_NAMES = 0x0800
/** 1 January 1980, the format's beginning: the same texts give the same bytes. */
const DATE = 0x0021

export function zipOf(files: ReadonlyMap<string, string>): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [path, text] of files) {
    const [name, body] = [Buffer.from(path), Buffer.from(text)]
    const common = commonFields(name, body)
    const local = Buffer.concat([uint32(LOCAL_HEADER), common, name, body])
    // Besides the common fields: who made it, no comment, first disk, no attributes, where the file begins.
    directory.push(
      Buffer.concat([uint32(CENTRAL_HEADER), uint16(VERSION), common, Buffer.alloc(10), uint32(offset), name]),
    )
    parts.push(local)
    offset += local.length
  }
  const central = Buffer.concat(directory)
  const counts = [uint16(files.size), uint16(files.size), uint32(central.length), uint32(offset), uint16(0)]
  return Buffer.concat([...parts, central, uint32(END), Buffer.alloc(4), ...counts])
}

function commonFields(name: Buffer, body: Buffer): Buffer {
  return Buffer.concat([
    uint16(VERSION),
    uint16(UTF8_NAMES),
    uint16(0),
    uint16(0),
    uint16(DATE),
    uint32(crc32(body)),
    uint32(body.length),
    uint32(body.length),
    uint16(name.length),
    uint16(0),
  ])
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16LE(value)
  return bytes
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
