/** What the routes of one product have in common. */
import { Type } from 'typebox'
import { requireDeveloper } from '../../operations/permissions.ts'
import { Reference } from './requests/paths.ts'

export const Params = Type.Object({ product_id: Reference })
export const tags = ['Products']
export const developer = (call: { readonly principal: Parameters<typeof requireDeveloper>[0] }) =>
  requireDeveloper(call.principal)
