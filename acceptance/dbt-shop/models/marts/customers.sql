with customers as (
    select * from {{ ref('stg_shop__customers') }}
),

customer_orders as (
    select
        customer_id,
        min(order_date) as first_order,
        max(order_date) as most_recent_order,
        count(order_id) as number_of_orders
    from {{ ref('stg_shop__orders') }}
    group by 1
),

customer_payments as (
    select o.customer_id, sum(p.amount) as total_amount
    from {{ ref('stg_shop__payments') }} p
    left join {{ ref('stg_shop__orders') }} as o on p.order_id = o.order_id
    group by o.customer_id
)

select
    customers.customer_id,
    customers.first_name || ' ' || coalesce(customers.last_name, '?') as full_name,
    customers.email,
    countries.country,
    countries.is_near,
    customers.created_at,
    customer_orders.first_order,
    customer_orders.most_recent_order,
    coalesce(customer_orders.number_of_orders, 0) as number_of_orders,
    customer_payments.total_amount as customer_lifetime_value
from customers
left join customer_orders on customers.customer_id = customer_orders.customer_id
left join customer_payments on customers.customer_id = customer_payments.customer_id
left join {{ ref('countries') }} on countries.code = customers.country_code
