/** What a contract agrees on beside its columns, as product.yaml says it. */
import { MANIFEST_LIMITS } from '../../manifest/files/shape.ts'
import type { Part } from './part.ts'

export function descriptionOf(contract: Part): Readonly<Record<string, unknown>> {
  const description = contract.part('description')
  const purpose = description.text('purpose')
  description.end()
  return { description: (purpose ?? '').slice(0, MANIFEST_LIMITS.descriptionLength) }
}

const EMAIL = /^[^@\s]+@[^@\s]+$/

export function ownerOf(contract: Part): Readonly<Record<string, unknown>> {
  const isOld = Array.isArray(contract.value('team'))
  const team = isOld ? null : contract.part('team')
  const name = team?.text('name') ?? null
  const members = isOld ? contract.parts('team') : (team?.parts('members') ?? [])
  const reachable = members.filter((one) => EMAIL.test(one.text('username') ?? ''))
  const owner = reachable.find((one) => /owner/i.test(one.text('role') ?? '')) ?? reachable[0]
  for (const member of members) if (member !== owner) member.say('', 'a product has one address of its owner')
  owner?.end()
  team?.end()
  const email = owner?.text('username') ?? null
  if (name === null && email === null) return {}
  return {
    owner: {
      ...(name === null || name === '' ? {} : { team: name.slice(0, MANIFEST_LIMITS.nameLength) }),
      ...(email === null ? {} : { email: email.slice(0, 320) }),
    },
  }
}

export function tagsOf(contract: Part): Readonly<Record<string, unknown>> {
  const tags = contract.list('tags').filter((tag) => typeof tag === 'string' && tag.length > 0 && tag.length <= 100)
  return tags.length === 0 ? {} : { tags: [...new Set(tags)].slice(0, 100) }
}

const UNITS: Readonly<Record<string, string>> = { second: 's', minute: 'm', min: 'm', hour: 'h', day: 'd' }

export function sloOf(contract: Part): Readonly<Record<string, unknown>> {
  const slo: Record<string, unknown> = {}
  for (const one of contract.parts('slaProperties')) {
    const property = (one.text('property') ?? '').toLowerCase()
    const value = Number(one.value('value'))
    const unit = one.text('unit')?.toLowerCase() ?? ''
    const short = /^[smhd]$/.test(unit) ? unit : UNITS[unit.replace(/s$/, '')]
    if (
      ['latency', 'ly', 'freshness'].includes(property) &&
      short !== undefined &&
      Number.isInteger(value) &&
      value > 0 &&
      value < 1e6 &&
      slo['freshness'] === undefined
    ) {
      slo['freshness'] = `${value}${short}`
    } else if (
      ['availability', 'av'].includes(property) &&
      value > 0 &&
      value <= 100 &&
      slo['availability'] === undefined
    ) {
      slo['availability'] = value
    } else {
      one.say('', `"${property.slice(0, 50)}" is no objective that is kept here`)
      continue
    }
    one.end()
  }
  return Object.keys(slo).length === 0 ? {} : { slo }
}
