/** Takes forms apart, as far as the route's parts go. */
import { hintOf } from './input.ts'
import { decodeText } from './json-body.ts'
import { refuse, validationFailed } from './problem.ts'
import type { FormBody, MultipartSpec } from './route.ts'

/** The texts of the parts. Throws `malformed_body`, `body_too_large` and `validation_failed`. */
export async function parseForm(bytes: Buffer, contentType: string, spec: MultipartSpec): Promise<FormBody> {
  return checkParts(await formDataOf(bytes, contentType, spec.parts.length), spec)
}

async function formDataOf(bytes: Buffer, contentType: string, maxParts: number): Promise<FormData> {
  const boundary = /boundary=(?:"([^"]{1,70})"|([^;\s]{1,70}))/i.exec(contentType)
  const delimiter = boundary?.[1] ?? boundary?.[2]
  if (delimiter === undefined) throw malformedForm('its Content-Type has no boundary')
  if (countOf(bytes, `--${delimiter}`) > maxParts + 1) throw malformedForm(`it has more than ${maxParts} parts`)
  decodeText(bytes)
  try {
    return await new Response(new Uint8Array(bytes), { headers: { 'content-type': contentType } }).formData()
  } catch {
    throw malformedForm('it is not multipart/form-data')
  }
}

async function checkParts(form: FormData, spec: MultipartSpec): Promise<FormBody> {
  const texts: Record<string, string> = {}
  for (const [name, value] of form) {
    if (!spec.parts.includes(name)) {
      const pointer = `/${name.slice(0, 64)}`
      throw validationFailed([{ in: 'body', pointer, message: 'is not known', ...hintOf(name, spec.parts) }])
    }
    if (Object.hasOwn(texts, name)) throw malformedForm('a part stands in it twice')
    const text = typeof value === 'string' ? value : await value.text()
    if (Buffer.byteLength(text) > spec.maxPartBytes) {
      throw refuse('body_too_large', `the part ${name} is larger than ${spec.maxPartBytes} bytes`)
    }
    texts[name] = text
  }
  const missing = spec.required.filter((name) => !Object.hasOwn(texts, name))
  if (missing.length === 0) return texts
  throw validationFailed(missing.map((name) => ({ in: 'body', pointer: `/${name}`, message: 'is required' })))
}

function countOf(bytes: Buffer, text: string): number {
  let count = 0
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + text.length)) count++
  return count
}

function malformedForm(reason: string): Error {
  return refuse('malformed_body', `the form is refused: ${reason}`)
}
